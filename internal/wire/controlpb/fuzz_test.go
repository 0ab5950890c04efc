package controlpb_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"muster/internal/wire/controlpb"
)

// Arbitrary bytes are refused by a FieldError or become a message that is
// checked and can be sent on as it is.
func FuzzRequest(f *testing.F) {
	for _, m := range requests() {
		f.Add(marshalled(f, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again controlpb.Request
		if !sound(t, controlpb.Decode(b, &m)) || !sound(t, m.Check()) {
			return
		}
		if m.Op() == "" {
			t.Error("a sound request asks nothing")
		}
		controlpb.Run(m.GetProvision().GetRunId())
		m.GetProvision().GetRecipe().Wire()
		same(t, &m, &again)
	})
}

func FuzzReply(f *testing.F) {
	for _, m := range replies() {
		f.Add(marshalled(f, m))
	}
	f.Add(marshalled(f, &controlpb.Reply{Fault: someFault()}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again controlpb.Reply
		if !sound(t, controlpb.Decode(b, &m)) || !sound(t, m.Check()) {
			return
		}
		if typed := m.GetFault().Typed(); typed != nil {
			if !proto.Equal(controlpb.FaultOf(typed), m.GetFault()) {
				t.Errorf("%v is sent on as %v", m.GetFault(), controlpb.FaultOf(typed))
			}
		}
		same(t, &m, &again)
	})
}

func marshalled(f *testing.F, m proto.Message) []byte {
	f.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func sound(t *testing.T, err error) bool {
	var field *controlpb.FieldError
	if err != nil && !errors.As(err, &field) {
		t.Errorf("%v names no field", err)
	}
	return err == nil
}

func same(t *testing.T, m, again proto.Message) {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := controlpb.Decode(b, again); err != nil || !proto.Equal(m, again) {
		t.Errorf("%v comes back as %v, %v", m, again, err)
	}
}

package controlpb_test

import (
	"bytes"
	"runtime"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"muster/internal/wire/controlpb"
)

// empty is a field of a message of no bytes.
func empty(number protowire.Number) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), nil)
}

// within wraps bytes as a message in a field.
func within(number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), b)
}

// Two bytes on the wire become a message of a hundred in memory.
func TestManySmallFieldsAreRefusedBeforeTheyAreMade(t *testing.T) {
	const peersOfRequest, peersOfPeers = 13, 2
	b := within(peersOfRequest, bytes.Repeat(empty(peersOfPeers), 2<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := controlpb.Decode(b, &controlpb.Request{})
	runtime.ReadMemStats(&after)
	wantField(t, err, "message has more than 262144 fields")
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes of memory were taken for it", took)
	}
}

func TestDeepMessagesAreRefused(t *testing.T) {
	const faultOfReply, causeOfFault = 1, 5
	b := empty(causeOfFault)
	for range 1000 {
		b = within(causeOfFault, b)
	}
	wantField(t, controlpb.Decode(within(faultOfReply, b), &controlpb.Reply{}), "message has messages within messages deeper than 24")
}

// A newer build of the same version may send more than this one knows.
func TestUnknownFieldsAreDropped(t *testing.T) {
	sent := requests()["ping"]
	b, err := proto.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, 500, protowire.VarintType), 7)
	b = append(b, within(501, []byte{0xff, 0xff})...)
	var got controlpb.Request
	if err := controlpb.Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&got, sent) {
		t.Errorf("it arrived as %v", &got)
	}
}

func TestGarbageIsNamed(t *testing.T) {
	for name, b := range map[string][]byte{
		"a cut tag":             {0x80},
		"a cut value":           {0x0a, 5, 1},
		"a group":               {0x0b},
		"a message cut within":  within(12, []byte{0x12, 9, 1}),
		"a number as a message": protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.BytesType), 1),
		"no text":               within(1, within(1, []byte{0xff})),
	} {
		if err := controlpb.Decode(b, &controlpb.Reply{}); err == nil {
			t.Errorf("%s is taken", name)
		} else {
			wantField(t, err, "message ")
		}
	}
}

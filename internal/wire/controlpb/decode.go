package controlpb

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Bounds of a message. A field of two bytes can be a message of a hundred in
// memory, so fields are counted before any is allocated; a pool of 50,000 nodes
// fits.
const (
	mostFields = 1 << 18
	mostDepth  = 24
)

// Decode reads one message into m. Fields that this build does not know are
// dropped. Its error is a FieldError.
func Decode(b []byte, m proto.Message) error {
	fields := mostFields
	if err := count(b, m.ProtoReflect().Descriptor(), &fields, mostDepth); err != nil {
		return err
	}
	options := proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: mostDepth}
	if err := options.Unmarshal(b, m); err != nil {
		return &FieldError{Field: "message", What: err.Error()}
	}
	return nil
}

// count takes the fields of a message and of those within it from left.
func count(b []byte, d protoreflect.MessageDescriptor, left *int, depth int) error {
	if depth == 0 {
		return &FieldError{Field: "message", What: fmt.Sprintf("has messages within messages deeper than %d", mostDepth)}
	}
	for len(b) > 0 {
		if *left--; *left < 0 {
			return &FieldError{Field: "message", What: fmt.Sprintf("has more than %d fields", mostFields)}
		}
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return malformed(n)
		}
		value := b[n:]
		n = protowire.ConsumeFieldValue(number, kind, value)
		if n < 0 {
			return malformed(n)
		}
		b = value[n:]
		field := d.Fields().ByNumber(number)
		if kind != protowire.BytesType || field == nil || field.Message() == nil {
			continue
		}
		inner, _ := protowire.ConsumeBytes(value)
		if err := count(inner, field.Message(), left, depth-1); err != nil {
			return err
		}
	}
	return nil
}

func malformed(n int) error {
	return &FieldError{Field: "message", What: "is no protobuf: " + protowire.ParseError(n).Error()}
}

// Op names what a request asks, such as "provision"; "" where it asks nothing
// that this build knows.
func (m *Request) Op() string {
	if body := bodyOf(m); body != nil {
		return string(body.Name())
	}
	return ""
}

// Answers reports whether m has the body that answers r.
func (m *Reply) Answers(r *Request) bool {
	asked, answered := bodyOf(r), bodyOf(m)
	return asked != nil && answered != nil && asked.Number() == answered.Number()
}

func bodyOf(m proto.Message) protoreflect.FieldDescriptor {
	r := m.ProtoReflect()
	return r.WhichOneof(r.Descriptor().Oneofs().ByName("body"))
}

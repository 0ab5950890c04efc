package gguf

import (
	"encoding/binary"
	"math"
)

// KeyType is the type of a key's value, with the numbers of the format.
type KeyType uint32

// The types of values.
const (
	KeyUint8   KeyType = 0
	KeyInt8    KeyType = 1
	KeyUint16  KeyType = 2
	KeyInt16   KeyType = 3
	KeyUint32  KeyType = 4
	KeyInt32   KeyType = 5
	KeyFloat32 KeyType = 6
	KeyBool    KeyType = 7
	KeyString  KeyType = 8
	KeyArray   KeyType = 9
	KeyUint64  KeyType = 10
	KeyInt64   KeyType = 11
	KeyFloat64 KeyType = 12
)

// width is the bytes of a scalar; 0 for strings, arrays and unknown types.
func (t KeyType) width() int {
	switch t {
	case KeyUint8, KeyInt8, KeyBool:
		return 1
	case KeyUint16, KeyInt16:
		return 2
	case KeyUint32, KeyInt32, KeyFloat32:
		return 4
	case KeyUint64, KeyInt64, KeyFloat64:
		return 8
	case KeyString, KeyArray:
	}
	return 0
}

// KV is one key of a header with its value.
type KV struct {
	Key   string
	Type  KeyType
	Elem  KeyType // arrays: type of an element, never KeyArray
	Count int     // arrays: number of elements
	Value []byte  // scalars and arrays as in the file, without type and count; strings without length
}

// Uint returns a whole number of at least 0 of any integer type.
func (kv KV) Uint() (uint64, bool) { return whole(kv.Type, kv.Value) }

func whole(t KeyType, b []byte) (uint64, bool) {
	var v int64
	switch t {
	case KeyUint8:
		return uint64(b[0]), true
	case KeyUint16:
		return uint64(binary.LittleEndian.Uint16(b)), true
	case KeyUint32:
		return uint64(binary.LittleEndian.Uint32(b)), true
	case KeyUint64:
		return binary.LittleEndian.Uint64(b), true
	case KeyInt8:
		v = int64(int8(b[0]))
	case KeyInt16:
		v = int64(int16(binary.LittleEndian.Uint16(b)))
	case KeyInt32:
		v = int64(int32(binary.LittleEndian.Uint32(b)))
	case KeyInt64:
		v = int64(binary.LittleEndian.Uint64(b))
	case KeyFloat32, KeyFloat64, KeyBool, KeyString, KeyArray:
		return 0, false
	default:
		return 0, false
	}
	return uint64(v), v >= 0
}

// Uints returns the elements of an array of whole numbers of at least 0.
func (kv KV) Uints() ([]uint64, bool) {
	size := kv.Elem.width()
	if kv.Type != KeyArray || size == 0 {
		return nil, false
	}
	out := make([]uint64, kv.Count)
	for i := range out {
		v, ok := whole(kv.Elem, kv.Value[i*size:])
		if !ok {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

// Float32 returns a value of that type.
func (kv KV) Float32() (float32, bool) {
	if kv.Type != KeyFloat32 {
		return 0, false
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(kv.Value)), true
}

// Text returns a string.
func (kv KV) Text() (string, bool) { return string(kv.Value), kv.Type == KeyString }

// Texts returns the elements of an array of strings.
func (kv KV) Texts() ([]string, bool) {
	if kv.Type != KeyArray || kv.Elem != KeyString {
		return nil, false
	}
	out := make([]string, 0, kv.Count)
	for rest := kv.Value; len(rest) > 0; {
		n := binary.LittleEndian.Uint64(rest)
		out = append(out, string(rest[8:8+n]))
		rest = rest[8+n:]
	}
	return out, true
}

// between returns elements [start,end) of an array of scalars.
func (kv KV) between(start, end int) KV {
	size := kv.Elem.width()
	kv.Value = kv.Value[start*size : end*size]
	kv.Count = end - start
	return kv
}

// Uint32 makes a key with a value of that type.
func Uint32(key string, v uint32) KV {
	return KV{Key: key, Type: KeyUint32, Value: binary.LittleEndian.AppendUint32(nil, v)}
}

// Float32 makes a key with a value of that type.
func Float32(key string, v float32) KV {
	return KV{Key: key, Type: KeyFloat32, Value: binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))}
}

// Bool makes a key with a value of that type.
func Bool(key string, v bool) KV {
	kv := KV{Key: key, Type: KeyBool, Value: []byte{0}}
	if v {
		kv.Value[0] = 1
	}
	return kv
}

// Text makes a key with a string.
func Text(key, v string) KV { return KV{Key: key, Type: KeyString, Value: []byte(v)} }

// Texts makes a key with an array of strings.
func Texts(key string, values []string) KV {
	kv := KV{Key: key, Type: KeyArray, Elem: KeyString, Count: len(values)}
	for _, v := range values {
		kv.Value = appendText(kv.Value, v)
	}
	return kv
}

// Int32s makes a key with an array of that type.
func Int32s(key string, values []int32) KV {
	kv := KV{Key: key, Type: KeyArray, Elem: KeyInt32, Count: len(values)}
	for _, v := range values {
		kv.Value = binary.LittleEndian.AppendUint32(kv.Value, uint32(v))
	}
	return kv
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

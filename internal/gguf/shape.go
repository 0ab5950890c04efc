package gguf

import "math"

func (in *inspector) shape() (err error) {
	if in.m.Width, err = in.number("embedding_length", -1, 1, mostUnits); err != nil {
		return err
	}
	if in.m.ContextTrained, err = in.number("context_length", 0, 0, 1<<31-1); err != nil {
		return err
	}
	if _, err = in.perLayer("feed_forward_length", 1); err != nil {
		return err
	}
	in.m.EmbeddingScale = in.arch.scale(in.m.Width)
	if err := in.epsilon(); err != nil {
		return err
	}
	if n, ok := in.f.Uint(in.key("nextn_predict_layers")); ok && n > 0 {
		return invalid(in.key("nextn_predict_layers"), "is %d: models with layers for speculation are not served", n)
	}
	return nil
}

func (in *inspector) attention() (err error) {
	m := in.m
	if m.Heads, err = in.perLayer("attention.head_count", -1); err != nil {
		return err
	}
	if m.KVHeads, err = in.perLayer("attention.head_count_kv", m.Heads); err != nil {
		return err
	}
	if m.Heads%m.KVHeads != 0 {
		return invalid(in.key("attention.head_count_kv"), "is %d, which does not divide the %d heads", m.KVHeads, m.Heads)
	}
	if m.KeyLength, err = in.number("attention.key_length", m.Width/m.Heads, 1, mostUnits); err != nil {
		return err
	}
	if m.ValueLength, err = in.number("attention.value_length", m.Width/m.Heads, 1, mostUnits); err != nil {
		return err
	}
	if m.KeyLength == 0 || m.ValueLength == 0 {
		return invalid(in.key("attention.head_count"), "is %d, more than the width %d", m.Heads, m.Width)
	}
	if m.KeyLength != m.ValueLength {
		return invalid(in.key("attention.value_length"), "is %d, keys have %d", m.ValueLength, m.KeyLength)
	}
	return nil
}

// epsilon checks the number added under the root of a norm.
func (in *inspector) epsilon() error {
	key := in.key("attention.layer_norm_rms_epsilon")
	kv, ok := in.f.KV(key)
	if !ok {
		return invalid(key, "is missing")
	}
	if v, ok := kv.Float32(); !ok || !(v >= 0) || math.IsInf(float64(v), 0) {
		return invalid(key, "is not a number of at least 0")
	}
	return nil
}

// rotation checks how many floats of a key the rotary embedding turns: pairs
// of them, and in these architectures all.
func (in *inspector) rotation() error {
	turned, err := in.number("rope.dimension_count", in.m.KeyLength, 0, mostUnits)
	if err != nil {
		return err
	}
	if turned != in.m.KeyLength || turned%2 != 0 {
		return invalid(in.key("rope.dimension_count"), "is %d, keys have %d floats", turned, in.m.KeyLength)
	}
	return nil
}

func (in *inspector) experts() (err error) {
	if in.m.Experts, err = in.number("expert_count", 0, 0, mostExperts); err != nil {
		return err
	}
	least := min(1, in.m.Experts)
	if in.arch.experts && least == 0 {
		return invalid(in.key("expert_count"), "is 0 or missing in a mixture of experts")
	}
	if _, err = in.number("expert_group_count", 0, 0, least); err != nil {
		return err
	}
	in.m.ExpertsUsed, err = in.number("expert_used_count", 0, least, in.m.Experts)
	if err == nil && in.m.ExpertsUsed < least {
		return invalid(in.key("expert_used_count"), "is missing in a mixture of experts")
	}
	return err
}

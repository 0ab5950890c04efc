package gguf

import (
	"errors"
	"fmt"
	"regexp"

	"muster/internal/fault"
)

var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// split returns how many parts the model has and which of them, from 0, this
// one is; 1 and 0 for a model in one file.
func (p *Part) split() (count, number uint64) {
	count = 1
	for _, kv := range p.kvs {
		v, ok := kv.Uint()
		switch {
		case ok && kv.Key == "split.count":
			count = max(1, v)
		case ok && kv.Key == "split.no":
			number = v
		}
	}
	return count, number
}

// gather opens the other parts of the model that one belongs to and returns
// all in order; one itself where it is the whole. On a fault all are closed.
func gather(one *Part) ([]*Part, error) {
	count, number := one.split()
	if count == 1 {
		return []*Part{one}, nil
	}
	parts := []*Part{one}
	incomplete := func(what string) error {
		_ = closeAll(parts)
		return fault.New(fault.GGUFSplitIncomplete, component, "path", one.Path, "count", count, "what", what)
	}
	m := partName.FindStringSubmatch(one.Path)
	if m == nil || m[2] != fmt.Sprintf("%05d", number+1) || m[3] != fmt.Sprintf("%05d", count) {
		return nil, incomplete(fmt.Sprintf("its name does not end in -%05d-of-%05d.gguf", number+1, count))
	}
	ordered := make([]*Part, 0, 8)
	for i := range count {
		if i == number {
			ordered = append(ordered, one)
			continue
		}
		p, err := openPart(fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, count))
		switch {
		case errors.Is(err, fault.GGUFFileMissing):
			return nil, incomplete(fmt.Sprintf("part %d is missing", i+1))
		case err != nil:
			_ = closeAll(parts)
			return nil, err
		}
		parts, ordered = append(parts, p), append(ordered, p)
		if c, n := p.split(); c != count || n != i {
			return nil, incomplete(fmt.Sprintf("%s says that it is part %d of %d", p.Path, n+1, c))
		}
	}
	return ordered, checkTotal(ordered, incomplete)
}

// complete refuses parts that are not all parts of one model in their order.
func complete(parts []*Part) error {
	first := parts[0]
	count, _ := first.split()
	incomplete := func(what string) error {
		return fault.New(fault.GGUFSplitIncomplete, component, "path", first.Path, "count", count, "what", what)
	}
	if uint64(len(parts)) != count {
		return incomplete(fmt.Sprintf("%d are there", len(parts)))
	}
	if count == 1 {
		return nil
	}
	for i, p := range parts {
		if c, n := p.split(); c != count || n != uint64(i) {
			return incomplete(fmt.Sprintf("%s says that it is part %d of %d", p.Path, n+1, c))
		}
	}
	return checkTotal(parts, incomplete)
}

// checkTotal compares the tensors found with the number the first part gives.
func checkTotal(parts []*Part, incomplete func(string) error) error {
	var found uint64
	for _, p := range parts {
		found += uint64(len(p.tensors))
	}
	for _, kv := range parts[0].kvs {
		if want, ok := kv.Uint(); ok && kv.Key == "split.tensors.count" && want != found {
			return incomplete(fmt.Sprintf("all parts hold %d tensors of %d", found, want))
		}
	}
	return nil
}

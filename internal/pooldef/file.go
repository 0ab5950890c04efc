package pooldef

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"

	"muster/internal/fault"
	"muster/internal/id"
)

// file is a definition as it is written for people. It has no epoch: that is
// the store's.
type file struct {
	Name  string     `toml:"name"`
	Nodes []fileNode `toml:"node"`
}

type fileNode struct {
	ID        id.NodeID `toml:"id"`
	Name      string    `toml:"name,omitempty"`
	Addresses []string  `toml:"addresses,omitempty"`
}

// Parse reads a definition in TOML. Where it has no name, that is given by
// another. path is for the faults: pool.file_invalid, which names the line, and
// store.pool_invalid.
func Parse(text []byte, path, name string) (Pool, error) {
	var f file
	dec := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		line, what := explain(err)
		return Pool{}, fault.New(fault.PoolFileInvalid, component, "path", path, "line", line, "what", what)
	}
	p := Pool{Name: f.Name}
	if name != "" {
		p.Name = name
	}
	for _, n := range f.Nodes {
		p.Nodes = append(p.Nodes, Node(n))
	}
	return p, p.Check()
}

// explain finds the line that an error is about.
func explain(err error) (line int, what string) {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		first := &unknown.Errors[0]
		line, _ = first.Position()
		key := first.Key()
		return line, fmt.Sprintf("no key %q is known there", key[len(key)-1])
	}
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, _ = wrong.Position()
	}
	return line, err.Error()
}

// Format writes a definition as Parse reads it, with its epoch as a remark.
func Format(p Pool) ([]byte, error) {
	f := file{Name: p.Name}
	for _, n := range p.Nodes {
		f.Nodes = append(f.Nodes, fileNode(n))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# at epoch %d\n", p.Epoch)
	if err := toml.NewEncoder(&b).Encode(f); err != nil {
		return nil, fault.New(fault.InternalUnexpected, component).Because(err)
	}
	return b.Bytes(), nil
}

package admit

import (
	"crypto/ed25519"

	"muster/internal/fault"
	"muster/internal/id"
)

// Signed is a report as it is sent. Nothing in it is to be believed before
// Verify has returned it.
type Signed struct {
	Report    Report    `json:"report"`
	Signature Signature `json:"signature"`
}

// Sign signs a report by its node's key. Faults: admit.report_invalid for what
// no report can say, admit.node_mismatched where the key is another node's.
func Sign(key ed25519.PrivateKey, r Report) (Signed, *fault.Fault) {
	if r.Schema != Schema {
		return Signed{}, mismatch(fault.AdmitSchemaMismatched, "schema", Schema, r.Schema)
	}
	if f := r.flaw(); f != nil {
		return Signed{}, f
	}
	if own := id.NodeIDOf(key.Public().(ed25519.PublicKey)); own != r.Node {
		return Signed{}, mismatch(fault.AdmitNodeMismatched, "node", own, r.Node)
	}
	return Signed{Report: r, Signature: Signature(ed25519.Sign(key, r.canonical()))}, nil
}

// Verify returns what a node has signed. Faults: admit.schema_mismatched,
// admit.report_invalid, admit.signature_broken.
func Verify(s Signed) (Report, *fault.Fault) {
	r := s.Report
	if r.Schema != Schema {
		return Report{}, mismatch(fault.AdmitSchemaMismatched, "schema", Schema, r.Schema)
	}
	if f := r.flaw(); f != nil {
		return Report{}, f
	}
	if !ed25519.Verify(r.Node.Key(), r.canonical(), s.Signature[:]) {
		return Report{}, fault.New(fault.AdmitSignatureBroken, component, "node", r.Node.Short())
	}
	return r, nil
}

// mismatch is a refusal that names a field, what was wanted and what came.
func mismatch(code fault.Code, field string, want, got any) *fault.Fault {
	return fault.New(code, component, "field", field, "want", want, "got", got)
}

package admit

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"muster/internal/wire"
)

// RecipeDigest is the digest of every field of a recipe, as it was ordered. Where
// it leaves the threads open the node measures them: they change no number.
func RecipeDigest(r wire.Recipe) Digest {
	e := encoder{b: []byte(recipeForm)}
	e.signed(int64(r.Context))
	e.signed(int64(r.Slots))
	e.signed(int64(r.Chunk))
	e.signed(int64(r.Threads))
	e.text(r.KVType)
	e.text(r.FlashAttention)
	e.flag(r.Repack)
	e.signed(int64(r.GPULayers))
	e.flag(r.Deterministic)
	return sha256.Sum256(e.b)
}

// Backend is what computes: another one may give other numbers.
type Backend struct {
	Engine    string    `json:"engine"` // version, as the engine tells it
	Libraries []Library `json:"libraries"`
	Device    Device    `json:"device"`
	Driver    string    `json:"driver"` // of the device, with its version; "" where it has none
}

// Library is one file of the engine.
type Library struct {
	Name   string `json:"name"` // without its folder
	Digest Digest `json:"digest"`
}

// Device is what the engine computes on, as it names it.
type Device struct {
	Kind        string `json:"kind"` // cpu, gpu, igpu, accel
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Digest is the backend's identity. The order of the libraries does not count.
func (b Backend) Digest() Digest {
	libraries := slices.Clone(b.Libraries)
	slices.SortFunc(libraries, func(x, y Library) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), slices.Compare(x.Digest[:], y.Digest[:]))
	})
	e := encoder{b: []byte(backendForm)}
	e.text(b.Engine)
	e.number(uint64(len(libraries)))
	for _, l := range libraries {
		e.text(l.Name)
		e.digest(l.Digest)
	}
	e.text(b.Device.Kind)
	e.text(b.Device.Name)
	e.text(b.Device.Description)
	e.text(b.Driver)
	return sha256.Sum256(e.b)
}

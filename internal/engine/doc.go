// Package engine drives llama.cpp 0.4.0, unmodified, through yzma without cgo:
// it loads one slice of a model, takes rows of hidden state or token ids, gives
// rows or logits, samples, tokenises and looks embeddings up.
//
// It knows no rings, records of the wire, files of the cache or other stages:
// it is given paths, rows and ids. muster-worker owns it and nothing else may
// import it, because llama.cpp can abort the process and libffi panics at its
// start where the library is missing. It starts no goroutine.
//
//	Load ── Library ── OpenModel ── Model ── NewContext ── Context
//	           ├────── OpenVocabulary ── Vocabulary ──┘        Decode… ► Rows | Logits
//	           ├────── OpenEmbedding ── Embedding
//	           └────── NewSampler ── Sampler
//
// A Context of the role Middle stops each forward right after its last layer:
// llama.cpp asks an evaluation filter about every node of the graph, and the
// filter copies the node named l_out-<n-1> and ends the computation. The final
// norm and the head are never computed there.
//
// What llama.cpp answers with an abort or with silence is checked here before it
// is called: the layout of its structs (Load), the size of a batch, lengths,
// token ids, positions and slots (Decode), and that every number that enters or
// leaves is finite.
//
// Memory handed to C: what outlives a call is memory of C, or pinned memory of
// Go; what does not is kept alive by the call. Callbacks run on whatever thread
// llama.cpp calls them.
//
// A Context, a Sampler and an Embedding serve one goroutine at a time. Different
// ones may be used at once.
package engine

// component names this package in faults.
const component = "engine"

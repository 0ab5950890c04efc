package wire

// An object record is what one stage hands to the next: the input of exactly
// one llama_decode, or the answers of the last stage. All numbers are
// little-endian.
//
//	 0        4        6        8       16         24       32   33     34
//	┌────────┬────────┬────────┬────────┬──────────┬────────┬────┬──────┬─────┐
//	│magic 4 │vers. 2 │header 2│ id 8   │sequence 8│extent 8│kind│flags │ 0 2 │
//	└────────┴────────┴────────┴────────┴──────────┴────────┴────┴──────┴─────┘
//	 36       40       44       48       52                            64
//	┌────────┬────────┬────────┬────────┬───────────────────────────────┐
//	│items 4 │width 4 │extras 4│ crc 4  │ 0 12                          │ header
//	├────────┴────────┴────────┴────────┴───────────────────────────────┤
//	│ items x {slot 2, marks 2, generation 4, position 4, count 4,      │ table
//	│          extra 4, 0 12}                                           │
//	├───────────────────────────────────────────────────────────────────┤
//	│ extras, in item order                                             │
//	├───────────────────────────────────────────────────────────────────┤
//	│ payload, extent bytes                                             │
//	│   tokens:  i32 a token, in item order                             │
//	│   rows:    width x f32 a token, in item order                     │
//	│   answers: per item with MarkAnswer: token i32, logprob f32,      │
//	│            tops u32, tops x (token i32, logprob f32),             │
//	│            logits u32, logits x f32                               │
//	└───────────────────────────────────────────────────────────────────┘
//
// crc is CRC-32C over header (with crc as zero), table and extras: what is
// decided by is covered, so a flipped bit in it is refused. The payload is not:
// its length follows from the table, and its numbers are judged by whoever
// computes with them.

// Kind says what a record's payload is.
type Kind uint8

// The kinds, as on the wire.
const (
	KindTokens  Kind = 1 // token ids, for the first stage
	KindRows    Kind = 2 // hidden state, for the stages behind it
	KindAnswers Kind = 3 // sampled tokens, from the last stage
)

// Mark is a set of things an item asks for or says.
type Mark uint16

// The marks, as on the wire. Where an item carries several, they apply in this
// order, and the item's tokens come between MarkTrim and MarkAnswer.
const (
	MarkOpen   Mark = 1 << iota // the slot begins; Extra is the JSON of a SlotOpen
	MarkEnd                     // the slot's cells are removed; the last stage answers with an End item
	MarkTrim                    // cells at and after Position are removed first; Count may be 0
	MarkAnswer                  // the last token's logits are wanted and sampled
	MarkLogits                  // the answer carries the raw logits row too; only with MarkAnswer

	marksKnown = MarkOpen | MarkEnd | MarkTrim | MarkAnswer | MarkLogits
)

// Item is one slot's part of a record.
type Item struct {
	Slot       uint16
	Marks      Mark
	Generation uint32 // of the slot; items of an older one are dropped
	Position   int32  // of the first token, from 0
	Count      int    // tokens or rows of this item; answers: what the sender likes to tell
	Extra      []byte // only with MarkOpen
}

// TokenLogprob is a token with its log-probability.
type TokenLogprob struct {
	Token   int32   `json:"token"`
	Logprob float32 `json:"logprob"`
}

// Answer is what the last stage drew for one item.
type Answer struct {
	Token   int32
	Logprob float32        // raw: log-softmax before any sampler
	Top     []TokenLogprob // most probable first, as many as Sampling.Logprobs asked for
	Logits  []float32      // the whole row where MarkLogits asked for it, else empty
}

// Record is one object record. Just the payload field of its Kind is set.
//
// A record that ReadRecord filled keeps its memory for the next ReadRecord into
// it: Items, Extra and payload slices hold until then.
type Record struct {
	ID       uint64 // object id, the same on every edge the object crosses
	Sequence uint64 // on this edge, from 0, rising by 1
	Kind     Kind
	Items    []Item
	Width    int       // floats a row; 0 but for rows
	Tokens   []int32   // KindTokens: TokenCount ids
	Rows     []float32 // KindRows: TokenCount x Width
	Answers  []Answer  // KindAnswers: the i-th belongs to the i-th item with MarkAnswer

	head    []byte // header, table and extras as last read
	payload []byte // answers as last read
}

// Limits bounds what ReadRecord accepts, and so what it allocates. A zero
// refuses every record that has any of it.
type Limits struct {
	Items      int // items of a record
	Tokens     int // tokens or rows of a record: the chunk
	Width      int // floats a row
	Extra      int // bytes of all extras of a record
	Top        int // tops of an answer
	Vocabulary int // logits of an answer
}

// Sampling is how the last stage draws a slot's tokens, in this order:
// penalties, top-k, top-p, min-p, temperature, draw.
type Sampling struct {
	Temperature      float32 `json:"temperature"` // 0 is greedy
	TopK             int     `json:"top_k"`       // 0 keeps all
	TopP             float32 `json:"top_p"`       // 1 keeps all
	MinP             float32 `json:"min_p"`       // 0 keeps all
	Seed             uint64  `json:"seed"`
	RepeatPenalty    float32 `json:"repeat_penalty"` // 1 is none
	FrequencyPenalty float32 `json:"frequency_penalty"`
	PresencePenalty  float32 `json:"presence_penalty"`
	PenaltyLast      int     `json:"penalty_last"` // tokens looked back on
	Logprobs         int     `json:"logprobs"`     // -1 none, else tops an answer carries
}

// SlotOpen travels as JSON in an Open item's Extra to the last stage.
type SlotOpen struct {
	Sampling Sampling `json:"sampling"`
	Prompt   []int32  `json:"prompt"` // ids of the prompt, for the penalties
}

const (
	recordMagic   = 0x5352544d // "MTRS" as the bytes lie
	recordVersion = 1
	headerSize    = 64
	itemSize      = 32
	answerMin     = 16 // bytes of an answer without tops and logits
	topSize       = 8

	itemsMax   = 1<<16 - 1 // items of a record under any limits
	extrasMax  = 1 << 30   // bytes of extras, likewise
	payloadMax = 1 << 30   // bytes of payload, likewise
)

// TokenCount is the sum of the items' counts: tokens or rows of the record.
func (r *Record) TokenCount() int {
	tokens, _ := countsOf(r.Items)
	return tokens
}

// countsOf are the tokens or rows of items, and how many of these want or
// carry an answer.
func countsOf(items []Item) (tokens, answers int) {
	for i := range items {
		tokens += items[i].Count
		if items[i].Marks&MarkAnswer != 0 {
			answers++
		}
	}
	return tokens, answers
}

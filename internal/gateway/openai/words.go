package openai

// Words are what all objects of one answer have in common.
type Words struct {
	ID      string
	Created int64 // seconds since 1970
	Model   string
}

// Choice is one answer that has ended.
type Choice struct {
	Index     int
	Text      string // of an answer that is told whole
	Finish    string // stop or length
	Prompted  int    // tokens
	Generated int
}

// Usage counts the tokens of a request: each prompt once, and all that was
// generated.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// Add counts a choice; first says that its prompt was not counted yet.
func (u *Usage) Add(c Choice, first bool) {
	if first {
		u.Prompt += c.Prompted
	}
	u.Completion += c.Generated
	u.Total = u.Prompt + u.Completion
}

type object struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *Usage   `json:"usage,omitempty"`
}

type choice struct {
	Index    int     `json:"index"`
	Text     string  `json:"text"`
	Logprobs *string `json:"logprobs"`      // none are told
	Finish   *string `json:"finish_reason"` // null while it goes on
}

func (w Words) object(choices ...choice) object {
	if choices == nil {
		choices = []choice{}
	}
	return object{ID: w.ID, Object: "text_completion", Created: w.Created, Model: w.Model, Choices: choices}
}

// Completion is an answer told whole.
func (w Words) Completion(all []Choice, u Usage) any {
	choices := make([]choice, len(all))
	for i, c := range all {
		choices[i] = choice{Index: c.Index, Text: c.Text, Finish: &c.Finish}
	}
	o := w.object(choices...)
	o.Usage = &u
	return o
}

// Piece is a part of a stream: text of a choice.
func (w Words) Piece(index int, text string) any { return w.object(choice{Index: index, Text: text}) }

// End is the part of a stream that ends a choice.
func (w Words) End(c Choice) any { return w.object(choice{Index: c.Index, Finish: &c.Finish}) }

// Usage is the last part of a stream that was asked for it.
func (w Words) Usage(u Usage) any {
	o := w.object()
	o.Usage = &u
	return o
}

package openai

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/fault"
)

// However a text is cut into pieces, what is told is the text up to the first
// stop, or all of it.
func TestStopsAreFoundAcrossPieces(t *testing.T) {
	found, none := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 0, 20, -1).Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 1, 4, -1), 0, 4).Draw(t, "stops")
		want := len(text)
		for _, s := range stops {
			if i := strings.Index(text, s); i >= 0 {
				want = min(want, i)
			}
		}
		// A stop that ends later may begin earlier: what came is cut at once, so the
		// first that is whole decides.
		s, told, over := NewStops(stops), "", false
		rest := text
		for rest != "" && !over {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			var out string
			out, over = s.Add(rest[:n])
			told, rest = told+out, rest[n:]
		}
		if !over {
			told += s.End()
		}
		if !strings.HasPrefix(text, told) {
			t.Fatalf("told %q of %q", told, text)
		}
		for _, stop := range stops {
			if strings.Contains(told, stop) {
				t.Fatalf("told %q, with the stop %q", told, stop)
			}
		}
		if over {
			found++
			ends := false
			for _, stop := range stops {
				ends = ends || strings.HasPrefix(text[len(told):], stop)
			}
			if !ends {
				t.Fatalf("%q was cut at %d, where no stop of %q is", text, len(told), stops)
			}
			return
		}
		none++
		if told != text || want != len(text) {
			t.Fatalf("told %q of %q, whose stops are %q", told, text, stops)
		}
	})
	if found == 0 || none == 0 {
		t.Errorf("%d found, %d not", found, none)
	}
}

func TestARequestIsRead(t *testing.T) {
	c, err := ParseCompletion([]byte(`{"model":"m","prompt":["a","b"],"n":2,"max_tokens":5,"stop":["x"],"stream":true,
		"stream_options":{"include_usage":true},"temperature":0,"top_p":0.5,"top_k":3,"min_p":0.1,"presence_penalty":1,"frequency_penalty":-1,
		"seed":-1,"user":"somebody","anything":{"else":[]},"logit_bias":{},"best_of":2}`))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Sampling
	if c.Choices() != 4 || c.Prompt(1) != "a" || c.Prompt(2) != "b" || c.Max != 5 || len(c.Stops) != 1 || !c.Stream || !c.Usage ||
		s.Temperature != 0 || s.TopP != 0.5 || s.TopK != 3 || s.MinP != 0.1 || s.PresencePenalty != 1 || s.FrequencyPenalty != -1 ||
		s.PenaltyLast == 0 || s.Seed != 1<<64-1 || !c.Seeded {
		t.Errorf("%+v", c)
	}
	if c, err = ParseCompletion([]byte(`{"prompt":"a"}`)); err != nil || c.N != 1 || c.Max != 16 || c.Sampling.Temperature != 1 || c.Sampling.TopP != 1 || c.Seeded {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestARequestThatCannotBeNamesItsField(t *testing.T) {
	for body, field := range map[string]string{
		``:                                            "the body",
		`[]`:                                          "the body",
		`{}`:                                          "prompt",
		`{"prompt":""}`:                               "prompt",
		`{"prompt":["a",""]}`:                         "prompt",
		`{"prompt":[]}`:                               "prompt",
		`{"prompt":5}`:                                "prompt",
		`{"prompt":"a","n":0}`:                        "n",
		`{"prompt":"a","n":129}`:                      "n",
		`{"prompt":["a","b"],"n":100}`:                "n",
		`{"prompt":"a","n":"two"}`:                    "n",
		`{"prompt":"a","max_tokens":0}`:               "max_tokens",
		`{"prompt":"a","max_tokens":1e99}`:            "max_tokens",
		`{"prompt":"a","temperature":2.1}`:            "temperature",
		`{"prompt":"a","temperature":-1}`:             "temperature",
		`{"prompt":"a","top_p":0}`:                    "top_p",
		`{"prompt":"a","top_k":-1}`:                   "top_k",
		`{"prompt":"a","min_p":2}`:                    "min_p",
		`{"prompt":"a","presence_penalty":3}`:         "presence_penalty",
		`{"prompt":"a","stop":""}`:                    "stop",
		`{"prompt":"a","stop":["a",""]}`:              "stop",
		`{"prompt":"a","stop":["a","b","c","d","e"]}`: "stop",
		`{"prompt":"a","stop":7}`:                     "stop",
		`{"prompt":"a","echo":true}`:                  "echo",
		`{"prompt":"a","logprobs":0}`:                 "logprobs",
		`{"prompt":"a","logit_bias":{"5":1}}`:         "logit_bias",
		`{"prompt":"a","best_of":3}`:                  "best_of",
		`{"prompt":"a","suffix":"b"}`:                 "suffix",
		`{"prompt":"a","stream_options":{}}`:          "stream_options",
		`{"prompt":"a","stream":"yes"}`:               "stream",
	} {
		_, err := ParseCompletion([]byte(body))
		if f := fault.From(err); !errors.Is(err, fault.RequestFieldInvalid) || f.Attr("field") != field {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func FuzzParseCompletion(f *testing.F) {
	f.Add([]byte(`{"prompt":["a"],"n":2,"stop":"x","stream":true,"temperature":0.5}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := ParseCompletion(body)
		if err != nil {
			if !errors.Is(err, fault.RequestFieldInvalid) {
				t.Fatal(err)
			}
			return
		}
		if n := c.Choices(); n < 1 || n > mostChoices || c.Prompt(n-1) == "" || c.Max < 1 || len(c.Stops) > mostStops {
			t.Fatalf("%+v", c)
		}
	})
}

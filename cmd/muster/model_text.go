package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"muster/internal/core/probe"
	"muster/internal/preset"
)

// modelShown is what `muster model show --json` prints.
type modelShown struct {
	preset.Preset
	Tensors int         `json:"tensors"`
	Prompts []int       `json:"prompts"` // tokens of the reference's prompts
	Parts   []partShown `json:"parts"`
}

// partShown is a smallest range of layers.
type partShown struct {
	Layers    [2]int          `json:"layers"` // [start,end)
	Measured  probe.Drift     `json:"measured"`
	Tolerance probe.Tolerance `json:"tolerance"` // for this part alone
}

func shownOf(p *preset.Loaded) modelShown {
	shown := modelShown{Preset: p.Preset, Tensors: len(p.Manifest.Tensors)}
	for _, prompt := range p.Probe.Prompts {
		shown.Prompts = append(shown.Prompts, len(prompt.Tokens))
	}
	for i, d := range p.Probe.Drifts {
		shown.Parts = append(shown.Parts, partShown{
			Layers:    [2]int{p.Probe.Borders[i], p.Probe.Borders[i+1]},
			Measured:  d,
			Tolerance: probe.Tolerate(p.Probe.Drifts[:i+1], i, p.Probe.Share, i == len(p.Probe.Drifts)-1),
		})
	}
	return shown
}

// pageOf shows a preset to people.
func pageOf(p *preset.Loaded) string {
	var b strings.Builder
	s, r := shownOf(p), p.Recipe
	fmt.Fprintf(&b, "preset %s\n", p.Name)
	for _, line := range [][2]string{
		{"revision", p.Revision},
		{"file", printable(fileOf(&p.Preset))},
		{"model", fmt.Sprintf("%s, %d layers of width %d, %d tensors, %s", printable(p.Model.Architecture), p.Model.Layers, p.Model.Width, s.Tensors, bytesText(p.Model.Bytes))},
		{"tokenizer", tokenizerText(p.Tokenizer)},
		{"recipe", fmt.Sprintf("context %d, %d %s, chunk %d, KV %s", r.Context, r.Slots, plural(r.Slots, "slot"), r.Chunk, printable(r.KVType))},
		{"reference", fmt.Sprintf("prompts of %d and %d tokens; by part, what was measured and what is tolerated:", s.Prompts[0], s.Prompts[1])},
	} {
		fmt.Fprintf(&b, "  %-11s%s\n", line[0], line[1])
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tlayers\tmost apart\ttolerated\tleast cosine\ttolerated\t")
	for _, part := range s.Parts {
		fmt.Fprintf(w, "\t%d:%d\t%.4f\t%.4f\t%.6f\t%.6f\t\n", part.Layers[0], part.Layers[1],
			part.Measured.Local.Relative, part.Tolerance.Relative, part.Measured.Local.Cosine, part.Tolerance.Cosine)
	}
	_ = w.Flush() // into memory
	return b.String()
}

func tokenizerText(t preset.Tokenizer) string {
	if t.Kind == "" {
		return "none"
	}
	text := fmt.Sprintf("%s, %d tokens", printable(t.Kind), t.Tokens)
	if t.BOS >= 0 {
		text += fmt.Sprintf(", begins with %d", t.BOS)
	}
	if t.EOS >= 0 {
		text += fmt.Sprintf(", ends with %d", t.EOS)
	}
	if t.TemplateDigest != "" {
		text += ", chat template " + t.TemplateDigest
	}
	return text
}

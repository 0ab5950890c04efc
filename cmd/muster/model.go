package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/preset"
)

// modelOptions are the flags that the verbs of `muster model` share.
type modelOptions struct {
	data string
	json bool
}

func modelCommand(std stdio) *cobra.Command {
	o := &modelOptions{}
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Keep models by name, each with the numbers that its layers must give",
		Long: "Keep models by name. A preset names a model's file and holds its revision (a digest of its content), a\n" +
			"digest of each tensor, the default recipe, and a reference: what its layers make of a short and a long\n" +
			"prompt, at each place where the model can be cut. By that a machine that holds some of the layers is judged\n" +
			"before it serves. A file that is named by its path stays where it is. " + demo.Name + " is built in.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	f.StringVar(&o.data, "data", defaultFolder("orchestrator"), "the orchestrator's data folder")
	f.BoolVar(&o.json, "json", false, "print an object")
	cmd.AddCommand(modelAddCommand(std, o), modelListCommand(std, o), modelShowCommand(std, o), modelVerifyCommand(std, o), modelRemoveCommand(std, o))
	return cmd
}

// presets opens the presets of the data folder.
func (o *modelOptions) presets() (*preset.Store, error) {
	if err := needsData(o.data); err != nil {
		return nil, err
	}
	return preset.Open(o.data)
}

func modelListCommand(std stdio, o *modelOptions) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the presets", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.presets()
			if err != nil {
				return err
			}
			all, err := s.List()
			if err != nil {
				return err
			}
			own, err := preset.BuiltIn(cmd.Context())
			if err != nil {
				return err
			}
			all = append([]preset.Listed{{Name: own.Name, Preset: &own.Preset}}, all...)
			if o.json {
				return printJSON(std, all)
			}
			return written(fmt.Fprint(std.out, listOf(all)))
		},
	}
}

// shortRevision is as much of a revision as people compare.
const shortRevision = 12

// listOf is a line a preset.
func listOf(all []preset.Listed) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tREVISION\tMODEL\tLAYERS\tSIZE\tCONTEXT\tFILE")
	for _, l := range all {
		p := l.Preset
		if p == nil {
			fmt.Fprintf(w, "%s\t%s\n", l.Name, printable(l.Fault.Error()))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\t%s\n", p.Name, p.Revision[:shortRevision], printable(p.Model.Architecture), p.Model.Layers,
			bytesText(p.Model.Bytes), p.Recipe.Context, printable(fileOf(p)))
	}
	_ = w.Flush() // into memory
	return b.String()
}

// fileOf is where the model of a preset lies.
func fileOf(p *preset.Preset) string {
	switch len(p.Files) {
	case 0:
		return "built in"
	case 1:
		return p.Files[0]
	}
	return fmt.Sprintf("%s and %d more", p.Files[0], len(p.Files)-1)
}

func modelShowCommand(std stdio, o *modelOptions) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a preset, and how exactly its layers can be judged", Args: words(1, 1, "the preset's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := o.presets()
			if err != nil {
				return err
			}
			p, err := s.Load(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer p.Close()
			if o.json {
				return printJSON(std, shownOf(p))
			}
			return written(fmt.Fprint(std.out, pageOf(p)))
		},
	}
}

func modelVerifyCommand(std stdio, o *modelOptions) *cobra.Command {
	return &cobra.Command{
		Use: "verify NAME", Short: "Read a preset's model again, and say which tensors are not what they were", Args: words(1, 1, "the preset's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := o.presets()
			if err != nil {
				return err
			}
			p, err := s.Load(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer p.Close()
			if err := sameModel(cmd.Context(), std, p); err != nil {
				return err
			}
			if o.json {
				return printJSON(std, struct {
					Name     string `json:"name"`
					Revision string `json:"revision"`
					Tensors  int    `json:"tensors"` // all of them as they were
				}{p.Name, p.Revision, len(p.Manifest.Tensors)})
			}
			return written(fmt.Fprintf(std.out, "%s: all %d tensors are what they were, revision %s\n", p.Name, len(p.Manifest.Tensors), p.Revision))
		},
	}
}

// sameModel reads a preset's model, unless it is in this program, and refuses
// one that has changed.
func sameModel(ctx context.Context, std stdio, p *preset.Loaded) error {
	if len(p.Files) == 0 {
		return nil
	}
	f, err := gguf.Open(p.Files[0])
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	now, err := gguf.BuildManifest(ctx, f, checksums(newProgress(std.err)))
	if err != nil {
		return err
	}
	frame, err := preset.FrameDigest(f)
	if err != nil {
		return err
	}
	changes := preset.Changes(p.Manifest, now)
	if len(changes) == 0 && frame != p.FrameDigest {
		changes = append(changes, preset.Change{What: "padding or layout changed"})
	}
	if len(changes) > 0 {
		return fault.New(fault.PresetModelChanged, "", "name", p.Name, "what", changesText(changes))
	}
	return nil
}

// checksums shows how far the reading of a model is.
func checksums(to *progress) func(done, total int64) {
	return func(done, total int64) { to.Tell(event.SliceProgressed{Slice: "checksums", Done: done, Total: total}) }
}

// changesText names the first changes and counts the others.
func changesText(changes []preset.Change) string {
	const most = 8
	var named []string
	for _, c := range changes[:min(most, len(changes))] {
		named = append(named, strings.TrimSpace(c.Tensor+" "+c.What))
	}
	text := strings.Join(named, ", ")
	if more := len(changes) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func modelRemoveCommand(std stdio, o *modelOptions) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a preset and what was fetched for it; a file given by its path stays", Args: words(1, 1, "the preset's name"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := o.presets()
			if err != nil {
				return err
			}
			if args[0] == demo.Name {
				return fault.New(fault.PresetBuiltInRefused, "", "name", args[0])
			}
			fetched, err := s.Remove(args[0])
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(std, struct {
					Removed string `json:"removed"`
					Fetched bool   `json:"fetched"` // its files were fetched, and are removed too
				}{args[0], fetched})
			}
			if fetched {
				return written(fmt.Fprintf(std.out, "%s: removed, with the files that were fetched for it\n", args[0]))
			}
			return written(fmt.Fprintf(std.out, "%s: removed\n", args[0]))
		},
	}
}

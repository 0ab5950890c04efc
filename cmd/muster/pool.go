package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/fault"
	"muster/internal/pooldef"
)

// poolOptions are the flags that the verbs of `muster pool` share.
type poolOptions struct {
	place poolPlace
	name  string // "": the one there is
	epoch uint64 // that a change is made from; 0: the present one
	json  bool
}

func poolCommand(std stdio) *cobra.Command {
	o := &poolOptions{place: poolPlace{missing: fault.PoolUndefined}}
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Define which nodes the pool has, and show it",
		Long: "Define which nodes the pool has. The definition lies in the orchestrator's data folder (--data). While\n" +
			"`muster serve` runs on that folder it is asked at its HTTP address (--api or MUSTER_API); giving that\n" +
			"address without --data asks there at once.\n\n" +
			"Each change raises the pool's epoch by one. A running orchestrator takes it over at once: a run that needs\n" +
			"a node which is removed ends (node.removed) and the next is formed of the pool as it is then; a run that\n" +
			"does not need it goes on. Two changes at once: the later one is refused (store.pool_changed).",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	o.place.addFlags(f)
	f.StringVar(&o.name, "pool", "", "name of the pool (default: the one there is)")
	f.Uint64Var(&o.epoch, "epoch", 0, "change the pool only if it is still at this epoch")
	f.BoolVar(&o.json, "json", false, "print the pool as an object")
	cmd.AddCommand(poolInitCommand(std, o), poolAddCommand(std, o), poolRemoveCommand(std, o), poolReplaceCommand(std, o), poolShowCommand(std, o))
	return cmd
}

func poolInitCommand(std stdio, o *poolOptions) *cobra.Command {
	var path string
	var nodes []string
	cmd := &cobra.Command{
		Use:   "init [NAME]",
		Short: "Make a pool, from nodes named here or from a file",
		Long: "Make a pool. A file is what `muster pool show --toml` prints; `-` reads it from the input. A pool that has\n" +
			"nodes already is replaced as a whole only with --epoch, if it is still at that epoch.",
		Args: words(0, 1, "at most the pool's name"),
	}
	cmd.Flags().StringVar(&path, "file", "", "a pool in TOML: name, and per [[node]] id, name, addresses")
	cmd.Flags().StringSliceVar(&nodes, "node", nil, "a node as ID or ID=NAME; again for each")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		want := pooldef.Pool{Name: cmp.Or(append(args, o.name)...)}
		if path != "" {
			var err error
			if want, err = readPoolFile(std.in, path, want.Name); err != nil {
				return err
			}
		}
		more, err := nodesOf("--node", nodes)
		if err != nil {
			return err
		}
		want.Nodes = append(want.Nodes, more...)
		if err := want.Check(); err != nil {
			return err
		}
		return o.place.within(cmd.Context(), true, func(ctx context.Context, at books) error { return o.init(ctx, std, at, want) })
	}
	return cmd
}

// init makes a pool, or puts the definition in the place of another.
func (o *poolOptions) init(ctx context.Context, std stdio, at pools, want pooldef.Pool) error {
	had, err := at.pool(ctx, want.Name)
	switch {
	case errors.Is(err, fault.StorePoolUnknown):
		had = pooldef.Pool{Name: want.Name}
	case err != nil:
		return err
	}
	return o.put(ctx, std, at, had, func(now pooldef.Pool) (pooldef.Pool, error) {
		if len(now.Nodes) > 0 && !now.Same(want) && o.epoch == 0 {
			return now, fault.New(fault.PoolDefinitionRepeated, "", "pool", now.Name, "epoch", now.Epoch)
		}
		now.Nodes = want.Nodes
		return now, nil
	})
}

func poolAddCommand(std stdio, o *poolOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "add ID[=NAME]...",
		Short: "Add nodes to the pool; `muster node --id` prints a node's id",
		Args:  words(1, -1, "at least one ID or ID=NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := nodesOf("ID[=NAME]", args)
			if err != nil {
				return err
			}
			return o.change(cmd.Context(), std, func(now pooldef.Pool) (pooldef.Pool, error) { return now.Add(nodes...) })
		},
	}
}

func poolRemoveCommand(std stdio, o *poolOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "remove ID|NAME...",
		Short: "Remove nodes from the pool; a run that needs one ends",
		Args:  words(1, -1, "at least one node, by id or name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.change(cmd.Context(), std, func(now pooldef.Pool) (pooldef.Pool, error) { return now.Remove(args...) })
		},
	}
}

func poolReplaceCommand(std stdio, o *poolOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "replace OLD NEW[=NAME]",
		Short: "Put a node in another's place, as after a lost key; it keeps the name",
		Args:  words(2, 2, "the former node, by id or name, and the id of the new one"),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := nodesOf("NEW[=NAME]", args[1:])
			if err != nil {
				return err
			}
			return o.change(cmd.Context(), std, func(now pooldef.Pool) (pooldef.Pool, error) { return now.Replace(args[0], by[0]) })
		},
	}
}

func poolShowCommand(std stdio, o *poolOptions) *cobra.Command {
	var asTOML bool
	cmd := &cobra.Command{Use: "show", Short: "Show the nodes that the pool has by its definition", Args: noArguments}
	cmd.Flags().BoolVar(&asTOML, "toml", false, "print the pool as a file, for muster pool init --file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return o.place.within(cmd.Context(), false, func(ctx context.Context, at books) error {
			p, err := at.pool(ctx, o.name)
			switch {
			case err != nil:
				return err
			case o.json:
				return printJSON(std, listed(p))
			case asTOML:
				text, err := pooldef.Format(p)
				if err != nil {
					return err
				}
				return written(std.out.Write(text))
			}
			return written(io.WriteString(std.out, poolText(p)))
		})
	}
	return cmd
}

// poolChanged is what a change prints with --json.
type poolChanged struct {
	pooldef.Pool
	Changed bool `json:"changed"`
}

// listed is a pool whose nodes are a list, be it an empty one.
func listed(p pooldef.Pool) pooldef.Pool {
	if p.Nodes == nil {
		p.Nodes = []pooldef.Node{}
	}
	return p
}

// change reads the pool, edits it and puts it back if it is still at that epoch.
func (o *poolOptions) change(ctx context.Context, std stdio, edit func(pooldef.Pool) (pooldef.Pool, error)) error {
	return o.place.within(ctx, false, func(ctx context.Context, at books) error {
		had, err := at.pool(ctx, o.name)
		if err != nil {
			return err
		}
		return o.put(ctx, std, at, had, edit)
	})
}

// put changes the pool that there is into what edit makes of it.
func (o *poolOptions) put(ctx context.Context, std stdio, at pools, had pooldef.Pool, edit func(pooldef.Pool) (pooldef.Pool, error)) error {
	want, err := edit(had)
	if err != nil {
		return err
	}
	if o.epoch > 0 {
		want.Epoch = o.epoch
	}
	now, err := at.define(ctx, want)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(std, poolChanged{listed(now), now.Epoch != had.Epoch})
	}
	what := "the pool"
	if now.Epoch == had.Epoch {
		what = "nothing was changed: the pool"
	}
	return written(fmt.Fprintf(std.out, "%s %s is at epoch %d, of %d %s\n", what, now.Name, now.Epoch, len(now.Nodes), plural(len(now.Nodes), "node")))
}

// nodesOf reads ID or ID=NAME.
func nodesOf(flag string, words []string) ([]pooldef.Node, error) {
	var nodes []pooldef.Node
	for _, w := range words {
		n, err := pooldef.ParseNode(w)
		if err != nil {
			return nil, fault.New(fault.CLIFlagInvalid, "", "flag", flag, "value", w,
				"want", "give a node's id, as `muster node --id` prints it, or ID=NAME").Because(err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// readPoolFile reads a pool; "-" is the input.
func readPoolFile(in io.Reader, path, name string) (pooldef.Pool, error) {
	const most = 4 << 20
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return pooldef.Pool{}, fault.New(fault.PoolFileUnreadable, "", "path", path).Because(err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return pooldef.Pool{}, fault.New(fault.PoolFileUnreadable, "", "path", path).Because(err)
	}
	return pooldef.Parse(text, path, name)
}

// poolText shows a definition to people.
func poolText(p pooldef.Pool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s, epoch %d: %d %s\n", p.Name, p.Epoch, len(p.Nodes), plural(len(p.Nodes), "node"))
	width := 0
	for _, n := range p.Nodes {
		width = max(width, len([]rune(n.Name)))
	}
	for _, n := range p.Nodes {
		fmt.Fprintf(&b, "  %-*s  %s  %s\n", width, n.Name, n.ID, strings.Join(n.Addresses, " "))
	}
	return trimLines(b.String())
}

// trimLines takes the spaces off the ends of lines.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// words refuses too few or too many arguments; most < 0 is no bound.
func words(least, most int, want string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return fault.New(fault.CLIArgumentUnknown, "").Because(fmt.Errorf("%d words: give %s", len(args), want))
		}
		return nil
	}
}

// poolVerbWithin bounds a verb of the pool as a whole.
const poolVerbWithin = 15 * time.Second

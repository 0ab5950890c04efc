package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/fault"
	"muster/internal/gateway"
	"muster/internal/store"
)

// keyOptions are the flags that the verbs of `muster key` share.
type keyOptions struct {
	place poolPlace
	json  bool
}

func keyCommand(std stdio) *cobra.Command {
	o := &keyOptions{place: poolPlace{missing: fault.KeyStoreMissing}}
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke the keys of clients, and grant them credit",
		Long: "Make keys for those who ask for answers over HTTP (/v1). While there never was a key everybody on this\n" +
			"machine may ask, at no charge. From the first one on each request needs one, as the header\n" +
			"Authorization: Bearer msk-…, which is what an OpenAI client makes of its api_key.\n\n" +
			"A key has a credit of tokens, or no limit. A request reserves its prompt and the longest answer it may get,\n" +
			"and is charged the prompt and the tokens that were delivered; a fault costs nothing. Muster's own verbs\n" +
			"(run, chat, …) are the operator's, and are not charged.\n\n" +
			"Keys lie in the orchestrator's data folder (--data), and are asked of `muster serve` where it runs.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	o.place.addFlags(f)
	f.BoolVar(&o.json, "json", false, "print an object")
	cmd.AddCommand(keyCreateCommand(std, o), keyListCommand(std, o), keyRevokeCommand(std, o), keyCreditCommand(std, o))
	return cmd
}

func keyCreateCommand(std stdio, o *keyOptions) *cobra.Command {
	var want store.NewKey
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a key; its secret is printed once and kept nowhere",
		Args:  words(1, 1, "the name of the key"),
	}
	f := cmd.Flags()
	f.Int64Var(&want.Credit, "credit", 0, "tokens that it may spend; more can be granted later")
	f.BoolVar(&want.Unlimited, "unlimited", false, "without a limit; what it spends is still counted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		want.Name = args[0]
		return o.place.within(cmd.Context(), true, func(ctx context.Context, at books) error {
			made, err := at.createKey(ctx, want)
			switch {
			case err != nil:
				return err
			case o.json:
				return printJSON(std, made)
			}
			return written(fmt.Fprintf(std.out, "%s\nthe key %s (%s) has %s. Keep its secret: it is not shown again.\n",
				made.Secret, made.Name, made.ID, creditText(made.Key)))
		})
	}
	return cmd
}

func keyListCommand(std stdio, o *keyOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the keys with what they have spent and what is left",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.place.within(cmd.Context(), false, func(ctx context.Context, at books) error {
				all, err := at.keys(ctx)
				switch {
				case err != nil:
					return err
				case o.json:
					return printJSON(std, all)
				}
				return written(io.WriteString(std.out, keysText(all.Keys)))
			})
		},
	}
}

func keyRevokeCommand(std stdio, o *keyOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME|ID",
		Short: "Take a key out of use for good; requests under way are answered",
		Args:  words(1, 1, "a key, by name or id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.change(cmd.Context(), std, func(ctx context.Context, at books) (store.Key, error) {
				return at.revokeKey(ctx, args[0])
			})
		},
	}
}

func keyCreditCommand(std stdio, o *keyOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "credit NAME|ID N",
		Short: "Add N tokens to the credit of a key",
		Args:  words(2, 2, "a key, by name or id, and a number of tokens"),
		RunE: func(cmd *cobra.Command, args []string) error {
			tokens, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || tokens < 1 {
				return fault.New(fault.KeyCreditInvalid, "", "tokens", args[1], "want", "give a whole number from 1, such as 100000")
			}
			request := rand.Text() // one grant, however often it is sent
			return o.change(cmd.Context(), std, func(ctx context.Context, at books) (store.Key, error) {
				return at.grant(ctx, gateway.Credit{Key: args[0], Tokens: tokens, Request: request})
			})
		},
	}
}

// change does something to a key and shows what became of it.
func (o *keyOptions) change(ctx context.Context, std stdio, do func(context.Context, books) (store.Key, error)) error {
	return o.place.within(ctx, false, func(ctx context.Context, at books) error {
		k, err := do(ctx, at)
		switch {
		case err != nil:
			return err
		case o.json:
			return printJSON(std, k)
		case k.Revoked != nil:
			return written(fmt.Fprintf(std.out, "the key %s (%s) is revoked\n", k.Name, k.ID))
		}
		return written(fmt.Fprintf(std.out, "the key %s (%s) has %s\n", k.Name, k.ID, creditText(k)))
	})
}

// creditText is what a key may still spend.
func creditText(k store.Key) string {
	switch {
	case k.Unlimited:
		return "no limit"
	case k.Granted == 0:
		return "no credit yet: muster key credit " + k.Name + " N"
	}
	return fmt.Sprintf("%d %s left", k.Balance, plural(int(k.Balance), "token"))
}

// keysText shows keys to people.
func keysText(all []store.Key) string {
	if len(all) == 0 {
		return "there are no keys: everybody on this machine may ask\n"
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tID\tLEFT\tSPENT\tRESERVED\tMADE\t")
	for _, k := range all {
		left := strconv.FormatInt(k.Balance, 10)
		switch {
		case k.Revoked != nil:
			left = "revoked"
		case k.Unlimited:
			left = "no limit"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\t\n", k.Name, k.ID, left, k.Spent, k.Reserved, k.Created.Format(time.DateOnly))
	}
	_ = table.Flush() // a string builder takes all
	return trimLines(b.String())
}

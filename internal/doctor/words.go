package doctor

import (
	"fmt"
	"math"
	"strconv"

	"muster/internal/core/probe"
)

// Says puts a check into words: its figure and what it is held against.
func Says(c probe.Check) string {
	got, limit := number(c.Got), number(c.Limit)
	switch c.Name {
	case probe.Slice:
		return got + " tensors of the slice, as handed to the engine, are not the model's"
	case probe.Finite:
		return got + " numbers that came out are NaN or infinite"
	case probe.Cosine:
		return "cosine to the reference " + got + ", at least " + limit
	case probe.Relative:
		return got + " from the reference at most, " + limit + " allowed"
	case probe.TopToken:
		return got + " prompts have another most probable token than the reference"
	case probe.Repeat:
		return got + " apart when the same is computed twice, 0 allowed"
	case probe.Stepwise:
		return "token by token " + got + " apart from whole chunks, " + limit + " allowed"
	case probe.Sensitive:
		return "another input makes a difference of " + got + " at least, more than 0 wanted"
	case probe.Rollback:
		return got + " apart after a roll-back, 0 allowed"
	case probe.Full:
		return fmt.Sprintf("%s tokens held by all slots together, of %s", got, limit)
	case probe.Memory:
		return fmt.Sprintf("%s resident at full context, of %s that the worker can have", megabytes(c.Got), megabytes(c.Limit))
	case probe.Decode:
		return got + " us for a token, more than 0 wanted"
	case probe.Prefill:
		return got + " us for a token of a whole chunk, more than 0 wanted"
	}
	return c.Name + ": " + got + " against " + limit
}

// Try says what to do about a check that failed.
func Try(check string) string {
	switch check {
	case probe.Slice:
		return "remove the slices in the data folder, so that they are written anew; if it stays so, check the disk and the memory of this machine"
	case probe.Finite:
		return "check the model's file against its source; if it is right, try without --gpu-layers, or another build of the engine"
	case probe.Cosine, probe.Relative, probe.TopToken:
		return "it computes something else than the reference: check that model, layers and recipe are the reference's, and then the memory of this machine and the build of the engine"
	case probe.Repeat:
		return "the machine or its device does not compute the same twice: look at its temperature, clock and memory, and at the driver of the device"
	case probe.Stepwise, probe.Rollback:
		return "the KV cache is not kept as it should be: try another KV type or no flash attention, or another build of the engine"
	case probe.Sensitive:
		return "what comes out does not depend on what goes in: check the model's file, and the build of the engine"
	case probe.Full:
		return "lower --ctx or --slots: the engine holds less than the recipe says"
	case probe.Memory:
		return "lower --ctx, --slots or --chunk, take fewer layers, or free memory on this machine"
	}
	return "this is a defect of Muster: report it with what you did"
}

// number spells a figure with four digits, of one near to 1 as many as tell it
// from 1.
func number(x float64) string {
	switch {
	case x >= beyond:
		return "beyond measure"
	case x == math.Trunc(x) && math.Abs(x) < 1e9:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x > 0.9 && x < 1:
		return strconv.FormatFloat(x, 'f', 2+int(math.Ceil(-math.Log10(1-x))), 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

func megabytes(b float64) string { return fmt.Sprintf("%.1f MiB", b/(1<<20)) }

// Package preset keeps named models: what each is, how it is run, and its
// reference probe, by which a machine can be judged that holds some of its
// layers.
//
//	DATA/presets/NAME/preset.json    name, revision, files, tokenizer, recipe
//	                 /manifest.json  digest of each tensor
//	                 /probe.bin      prompts, rows at every border, logits, drifts
//	            /.NAME.adding/       being made
//	            /.NAME.removing/     being removed
//	            /.NAME.lock          held by whoever does either
//
// A preset is there as a whole or not at all: its folder is made under another
// name, put on the disk, and renamed. What a process leaves that is killed in
// between has no lock, and the next Open sweeps it. preset.json holds the
// digests of the two other files, and each of the three its own version and
// revision, so that a changed, torn or foreign one is refused.
//
// The package computes no reference and starts no goroutine; it does not read
// the models that presets name.
package preset

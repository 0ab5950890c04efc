package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit/randmodel"
)

// raw writes headers that gguf.Write would not.
type raw []byte

func start(version uint32, tensors, keys uint64) raw {
	b := raw("GGUF").u32(version)
	return b.u64(tensors).u64(keys)
}

func (b raw) u32(v uint32) raw      { return binary.LittleEndian.AppendUint32(b, v) }
func (b raw) u64(v uint64) raw      { return binary.LittleEndian.AppendUint64(b, v) }
func (b raw) text(s string) raw     { return append(b.u64(uint64(len(s))), s...) }
func (b raw) key(k string) raw      { return b.text(k) }
func (b raw) of(t uint32) raw       { return b.u32(t) }
func (b raw) padded(more int) raw   { return append(b, make([]byte, (32-len(b)%32)%32+more)...) }
func (b raw) plain(k, v string) raw { return b.key(k).of(8).text(v) }
func (b raw) tensor(name string, t uint32, offset uint64, dims ...uint64) raw {
	b = b.text(name).u32(uint32(len(dims)))
	for _, d := range dims {
		b = b.u64(d)
	}
	return b.u32(t).u64(offset)
}

const huge = 1 << 60

// TestBadHeaders: each gets its fault, none takes memory for what it claims.
func TestBadHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		file raw
		want fault.Code
	}{
		"empty":                      {raw{}, fault.GGUFFileEmpty},
		"one byte of the magic":      {raw("G"), fault.GGUFHeaderTruncated},
		"another format":             {raw("\x80\x02}q\x00X\x05\x00"), fault.GGUFMagicWrong},
		"two bytes of another":       {raw("PK"), fault.GGUFMagicWrong},
		"version 1":                  {start(1, 0, 0), fault.GGUFVersionUnsupported},
		"version 4":                  {start(4, 0, 0), fault.GGUFVersionUnsupported},
		"big-endian":                 {start(3<<24, 0, 0), fault.GGUFVersionUnsupported},
		"huge number of tensors":     {start(3, huge, 0), fault.GGUFHeaderInvalid},
		"huge number of keys":        {start(3, 0, huge), fault.GGUFHeaderInvalid},
		"more keys than bytes":       {start(3, 0, 1000), fault.GGUFHeaderTruncated},
		"more tensors than bytes":    {start(3, 1000, 0), fault.GGUFHeaderTruncated},
		"key longer than the file":   {start(3, 0, 1).u64(5000), fault.GGUFHeaderTruncated},
		"huge key":                   {start(3, 0, 1).u64(huge), fault.GGUFHeaderInvalid},
		"key of all ones":            {start(3, 0, 1).u64(1<<64 - 1), fault.GGUFHeaderInvalid},
		"empty key":                  {start(3, 0, 1).plain("", "x"), fault.GGUFHeaderInvalid},
		"control character in a key": {start(3, 0, 1).plain("a\x00b", "x"), fault.GGUFHeaderInvalid},
		"key twice":                  {start(3, 0, 2).plain("a", "x").plain("a", "y"), fault.GGUFHeaderInvalid},
		"text longer than the file":  {start(3, 0, 1).key("a").of(8).u64(5000), fault.GGUFHeaderTruncated},
		"huge text":                  {start(3, 0, 1).key("a").of(8).u64(huge), fault.GGUFHeaderTruncated},
		"text of all ones":           {start(3, 0, 1).key("a").of(8).u64(1<<64 - 1), fault.GGUFHeaderTruncated},
		"unknown type of value":      {start(3, 0, 1).key("a").of(13).u64(0), fault.GGUFHeaderInvalid},
		"unknown type of element":    {start(3, 0, 1).key("a").of(9).of(99).u64(1).u64(0), fault.GGUFHeaderInvalid},
		"array of arrays":            {start(3, 0, 1).key("a").of(9).of(9).u64(1).of(4).u64(0), fault.GGUFHeaderInvalid},
		"array longer than the file": {start(3, 0, 1).key("a").of(9).of(4).u64(1000), fault.GGUFHeaderTruncated},
		"huge array":                 {start(3, 0, 1).key("a").of(9).of(10).u64(1 << 61), fault.GGUFHeaderInvalid},
		"huge array of texts":        {start(3, 0, 1).key("a").of(9).of(8).u64(huge), fault.GGUFHeaderInvalid},
		"texts longer than the file": {start(3, 0, 1).key("a").of(9).of(8).u64(2).text("x").u64(1 << 62), fault.GGUFHeaderTruncated},
		"alignment 0":                {start(3, 0, 1).key("general.alignment").of(4).u32(0), fault.GGUFHeaderInvalid},
		"alignment 24":               {start(3, 0, 1).key("general.alignment").of(4).u32(24), fault.GGUFHeaderInvalid},
		"alignment 2^31":             {start(3, 0, 1).key("general.alignment").of(4).u32(1 << 31), fault.GGUFHeaderInvalid},
		"alignment is a text":        {start(3, 0, 1).plain("general.alignment", "32"), fault.GGUFHeaderInvalid},
		"tensor without a name":      {start(3, 1, 0).tensor("", 0, 0, 4).padded(64), fault.GGUFHeaderInvalid},
		"tensor's name of 64 bytes":  {start(3, 1, 0).tensor(strings.Repeat("n", 64), 0, 0, 4).padded(64), fault.GGUFHeaderInvalid},
		"tensor's name with a zero":  {start(3, 1, 0).tensor("a\x00", 0, 0, 4).padded(64), fault.GGUFHeaderInvalid},
		"no dimension":               {start(3, 1, 0).tensor("a", 0, 0).padded(64), fault.GGUFHeaderInvalid},
		"five dimensions":            {start(3, 1, 0).tensor("a", 0, 0, 1, 1, 1, 1, 1).padded(64), fault.GGUFHeaderInvalid},
		"2^32-1 dimensions":          {start(3, 1, 0).text("a").u32(1<<32 - 1).padded(64), fault.GGUFHeaderInvalid},
		"a dimension of 0":           {start(3, 1, 0).tensor("a", 0, 0, 4, 0).padded(64), fault.GGUFHeaderInvalid},
		"dimensions overflow":        {start(3, 1, 0).tensor("a", 0, 0, 1<<32, 1<<32).padded(64), fault.GGUFHeaderInvalid},
		"dimensions overflow to 4":   {start(3, 1, 0).tensor("a", 0, 0, 1<<32+1, 1<<32+1, 1<<32).padded(64), fault.GGUFHeaderInvalid},
		"bytes overflow":             {start(3, 1, 0).tensor("a", 0, 0, 1<<62).padded(64), fault.GGUFHeaderInvalid},
		"half a block":               {start(3, 1, 0).tensor("a", 8, 0, 48).padded(64), fault.GGUFHeaderInvalid},
		"unknown tensor type":        {start(3, 1, 0).tensor("a", 77, 0, 32).padded(64), fault.ModelTensorUnsupported},
		"removed tensor type":        {start(3, 1, 0).tensor("a", 4, 0, 32).padded(64), fault.ModelTensorUnsupported},
		"tensor past the end":        {start(3, 1, 0).tensor("a", 0, 0, 17).padded(64), fault.GGUFDataTruncated},
		"tensor beyond the end":      {start(3, 1, 0).tensor("a", 0, 1<<50, 4).padded(64), fault.GGUFDataTruncated},
		"offset of all ones":         {start(3, 1, 0).tensor("a", 0, 1<<64-1, 4).padded(64), fault.GGUFDataTruncated},
		"offset not aligned":         {start(3, 1, 0).tensor("a", 0, 4, 4).padded(64), fault.GGUFHeaderInvalid},
		"tensor twice":               {start(3, 2, 0).tensor("a", 0, 0, 4).tensor("a", 0, 32, 4).padded(64), fault.GGUFHeaderInvalid},
		"tensors at one place":       {start(3, 2, 0).tensor("a", 0, 0, 4).tensor("b", 0, 0, 4).padded(64), fault.GGUFHeaderInvalid},
		"tensors overlap":            {start(3, 2, 0).tensor("b", 0, 32, 4).tensor("a", 0, 0, 9).padded(64), fault.GGUFHeaderInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			grown := allocated(func() { _, err = gguf.Read(bytes.NewReader(c.file), int64(len(c.file)), "bad.gguf") })
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			if hint := fault.From(err).Hint(); hint == "" || strings.Contains(err.Error()+hint, "{") {
				t.Errorf("what a person reads is not whole: %v; %s", err, hint)
			}
			if grown > 64<<10 {
				t.Errorf("a file of %d bytes took %d of memory", len(c.file), grown)
			}
		})
	}
}

// allocated is the memory that do takes, in bytes.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestCutAtEveryByte: a download that stopped anywhere is refused as that.
func TestCutAtEveryByte(t *testing.T) {
	b := generate(t, randmodel.Config{Layers: 1, Width: 32, FFN: 32, Heads: 2, Vocabulary: randmodel.LeastVocabulary})
	f := read(t, b)
	data := int(f.Tensors[0].Offset)
	for n := range b {
		if n > data && n%61 != 0 {
			continue
		}
		_, err := gguf.Read(bytes.NewReader(b[:n]), int64(n), "cut.gguf")
		got := fault.From(err)
		ok := errors.Is(err, fault.GGUFHeaderTruncated) || errors.Is(err, fault.GGUFDataTruncated)
		if n == 0 {
			ok = errors.Is(err, fault.GGUFFileEmpty)
		}
		if n > data {
			ok = errors.Is(err, fault.GGUFDataTruncated) && got.Attr("tensor") != ""
		}
		last := f.Tensors[len(f.Tensors)-1]
		if n >= int(last.Offset+last.Size) {
			ok = err == nil // only padding is missing
		}
		if !ok {
			t.Fatalf("cut after %d bytes of %d (data from %d): %v", n, len(b), data, err)
		}
	}
}

func TestBadPaths(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		path string
		want fault.Code
	}{
		"missing":      {filepath.Join(dir, "none.gguf"), fault.GGUFFileMissing},
		"a folder":     {dir, fault.GGUFFileUnreadable},
		"below a file": {filepath.Join(stories, "x"), fault.GGUFFileUnreadable},
	} {
		if _, err := gguf.Open(c.path); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	empty := filepath.Join(dir, "empty.gguf")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := gguf.Open(empty); !errors.Is(err, fault.GGUFFileEmpty) {
		t.Errorf("empty: got %v", err)
	}
}

// model is a whole model whose keys and tensors a test can change.
type model struct {
	kvs   []gguf.KV
	infos []gguf.Info
}

func modelOf(t testing.TB, c randmodel.Config) *model {
	t.Helper()
	f := read(t, generate(t, c))
	m := &model{kvs: slices.Clone(f.KVs)}
	for _, x := range f.Tensors {
		m.infos = append(m.infos, gguf.Info{Name: x.Name, Dims: slices.Clone(x.Dims), Type: x.Type})
	}
	return m
}

func (m *model) drop(name string) {
	m.kvs = slices.DeleteFunc(m.kvs, func(kv gguf.KV) bool { return kv.Key == name })
	m.infos = slices.DeleteFunc(m.infos, func(i gguf.Info) bool { return i.Name == name })
}

func (m *model) set(kv gguf.KV) {
	m.drop(kv.Key)
	m.kvs = append(m.kvs, kv)
}

func (m *model) rename(from, to string) {
	for i := range m.infos {
		m.infos[i].Name = strings.ReplaceAll(m.infos[i].Name, from, to)
	}
}

func (m *model) file(t testing.TB) *gguf.File { return read(t, m.bytes(t)) }

// bytes writes the model, each tensor filled with a byte of its own.
func (m *model) bytes(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	err := gguf.Write(&b, m.kvs, m.infos, func(i int, w io.Writer) error {
		size, err := m.infos[i].Size()
		if err != nil {
			return err
		}
		_, err = w.Write(bytes.Repeat([]byte{byte(i + 1)}, int(size)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSickModels: sound files whose model would abort llama.cpp, give wrong
// numbers or is not served.
func TestSickModels(t *testing.T) {
	tokens := func(n int) []string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint(i))
		}
		return all
	}
	for name, c := range map[string]struct {
		change func(*model)
		want   fault.Code
	}{
		"another architecture":    {func(m *model) { m.set(gguf.Text("general.architecture", "mamba")) }, fault.ModelArchitectureUnsupported},
		"no architecture":         {func(m *model) { m.drop("general.architecture") }, fault.ModelArchitectureUnsupported},
		"block_count 0":           {func(m *model) { m.set(gguf.Uint32("llama.block_count", 0)) }, fault.ModelBlockCountInvalid},
		"block_count too small":   {func(m *model) { m.set(gguf.Uint32("llama.block_count", 2)) }, fault.ModelBlockCountInvalid},
		"block_count too large":   {func(m *model) { m.set(gguf.Uint32("llama.block_count", 4)) }, fault.ModelBlockCountInvalid},
		"block_count of all ones": {func(m *model) { m.set(gguf.Uint32("llama.block_count", 1<<32-1)) }, fault.ModelBlockCountInvalid},
		"a layer is missing":      {func(m *model) { m.rename("blk.1.", "blk.3.") }, fault.ModelBlockCountInvalid},
		"layers from 1":           {func(m *model) { m.rename("blk.0.", "blk.3.") }, fault.ModelBlockCountInvalid},
		"layer 2^40":              {func(m *model) { m.rename("blk.2.", "blk.1099511627776.") }, fault.ModelBlockCountInvalid},
		"no layers":               {func(m *model) { m.rename("blk.", "lay.") }, fault.ModelBlockCountInvalid},
		"layer 01":                {func(m *model) { m.rename("blk.1.", "blk.01.") }, fault.ModelMetadataInvalid},
		"block_count is a text":   {func(m *model) { m.set(gguf.Text("llama.block_count", "3")) }, fault.ModelMetadataInvalid},
		"no block_count":          {func(m *model) { m.drop("llama.block_count") }, fault.ModelMetadataInvalid},
		"no width":                {func(m *model) { m.drop("llama.embedding_length") }, fault.ModelMetadataInvalid},
		"other width":             {func(m *model) { m.set(gguf.Uint32("llama.embedding_length", 65)) }, fault.ModelMetadataInvalid},
		"no heads":                {func(m *model) { m.set(gguf.Uint32("llama.attention.head_count", 0)) }, fault.ModelMetadataInvalid},
		"3 KV heads of 4":         {func(m *model) { m.set(gguf.Uint32("llama.attention.head_count_kv", 3)) }, fault.ModelMetadataInvalid},
		"heads of 2 layers":       {func(m *model) { m.set(gguf.Int32s("llama.attention.head_count", []int32{4, 4})) }, fault.ModelMetadataInvalid},
		"heads of 4 layers":       {func(m *model) { m.set(gguf.Int32s("llama.attention.head_count_kv", []int32{2, 2, 2, 2})) }, fault.ModelMetadataInvalid},
		"negative heads":          {func(m *model) { m.set(gguf.Int32s("llama.attention.head_count", []int32{4, -4, 4})) }, fault.ModelMetadataInvalid},
		"513 experts":             {func(m *model) { m.set(gguf.Uint32("llama.expert_count", 513)) }, fault.ModelMetadataInvalid},
		"experts, none used":      {func(m *model) { m.set(gguf.Uint32("llama.expert_count", 4)) }, fault.ModelMetadataInvalid},
		"used, no experts":        {func(m *model) { m.set(gguf.Uint32("llama.expert_used_count", 2)) }, fault.ModelMetadataInvalid},
		"grouped experts":         {func(m *model) { m.set(gguf.Uint32("llama.expert_group_count", 3)) }, fault.ModelMetadataInvalid},
		"no epsilon":              {func(m *model) { m.drop("llama.attention.layer_norm_rms_epsilon") }, fault.ModelMetadataInvalid},
		"epsilon below 0":         {func(m *model) { m.set(gguf.Float32("llama.attention.layer_norm_rms_epsilon", -1)) }, fault.ModelMetadataInvalid},
		"epsilon is no number":    {func(m *model) { m.set(gguf.Float32("llama.attention.layer_norm_rms_epsilon", float32(math.NaN()))) }, fault.ModelMetadataInvalid},
		"keys turned by half":     {func(m *model) { m.set(gguf.Uint32("llama.rope.dimension_count", 8)) }, fault.ModelMetadataInvalid},
		"values of other length":  {func(m *model) { m.set(gguf.Uint32("llama.attention.value_length", 8)) }, fault.ModelMetadataInvalid},
		"unknown tokenizer":       {func(m *model) { m.set(gguf.Text("tokenizer.ggml.model", "rwkv")) }, fault.ModelMetadataInvalid},
		"bytes without tokens":    {func(m *model) { m.set(gguf.Text("tokenizer.ggml.model", "llama")) }, fault.ModelMetadataInvalid},
		"layers for speculation":  {func(m *model) { m.set(gguf.Uint32("llama.nextn_predict_layers", 1)) }, fault.ModelMetadataInvalid},
		"no embedding":            {func(m *model) { m.drop("token_embd.weight") }, fault.ModelTensorMissing},
		"no norm":                 {func(m *model) { m.drop("output_norm.weight") }, fault.ModelTensorMissing},
		"a layer lacks a matrix":  {func(m *model) { m.drop("blk.1.ffn_down.weight") }, fault.ModelTensorMissing},
		"head of other shape":     {func(m *model) { m.infos[2].Dims[1]-- }, fault.ModelMetadataInvalid},
		"fewer tokens than rows":  {func(m *model) { m.set(gguf.Texts("tokenizer.ggml.tokens", tokens(511))) }, fault.ModelMetadataInvalid},
		"a token twice":           {func(m *model) { m.set(gguf.Texts("tokenizer.ggml.tokens", append(tokens(511), "7"))) }, fault.ModelMetadataInvalid},
		"no tokens":               {func(m *model) { m.drop("tokenizer.ggml.tokens") }, fault.ModelMetadataInvalid},
		"types of fewer tokens":   {func(m *model) { m.set(gguf.Int32s("tokenizer.ggml.token_type", []int32{1})) }, fault.ModelMetadataInvalid},
		"scores are whole":        {func(m *model) { m.set(gguf.Int32s("tokenizer.ggml.scores", make([]int32, 512))) }, fault.ModelMetadataInvalid},
		"merges are numbers":      {func(m *model) { m.set(gguf.Int32s("tokenizer.ggml.merges", []int32{1})) }, fault.ModelMetadataInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			m := modelOf(t, randmodel.Config{})
			c.change(m)
			_, err := gguf.Inspect(m.file(t))
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			if hint := fault.From(err).Hint(); hint == "" || strings.Contains(err.Error()+hint, "{") {
				t.Errorf("what a person reads is not whole: %v; %s", err, hint)
			}
		})
	}
}

// TestRefusalNamesWhatIsServed: somebody with another model learns what to get.
func TestRefusalNamesWhatIsServed(t *testing.T) {
	m := modelOf(t, randmodel.Config{})
	m.set(gguf.Text("general.architecture", "m\x1b[31m"))
	_, err := gguf.Inspect(m.file(t))
	f := fault.From(err)
	for _, a := range []string{"llama", "qwen2", "qwen3", "qwen3moe", "gemma3", "mixtral"} {
		if !strings.Contains(f.Hint(), a) {
			t.Errorf("%s is not in %q", a, f.Hint())
		}
	}
	if strings.Contains(f.Error(), "\x1b") {
		t.Errorf("%q reaches the terminal as it is", f.Error())
	}
}

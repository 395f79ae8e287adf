package tokenizer

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rlinf/rlinf/internal/test"
)

type golden struct {
	Cases []struct {
		Text, Decoded string
		Skipped       string  `json:"decoded_skip_special"`
		IDs           []int32 `json:"ids"`
		Sequence      []int32 `json:"ids_with_special"`
	}
	Decode []struct {
		IDs     []int32 `json:"ids"`
		Decoded string
	}
}

type variants struct {
	Texts    []string
	Variants []struct {
		Name, Base string
		Set, Model map[string]json.RawMessage
		IDs        [][]int32 `json:"ids"`
		Sequence   [][]int32 `json:"with_special"`
		Decoded    []string
		Skipped    []string `json:"decoded_skip"`
	}
}

func readGzip(t testing.TB, name string, to any) {
	t.Helper()
	f := test.Must(os.Open(filepath.Join("testdata", name)))(t)
	defer f.Close()
	z := test.Must(gzip.NewReader(f))(t)
	test.OK(t, json.NewDecoder(z).Decode(to))
}

func load(t testing.TB, name string) *Tokenizer {
	t.Helper()
	k := test.Must(Load(filepath.Join("testdata", name)))(t)
	return k
}

// changed loads a tokenizer of testdata after changes of fields in tokenizer.json and of fields in its model.
func changed(t testing.TB, base string, set, model map[string]json.RawMessage) (*Tokenizer, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", base, tokenizerFile))
	test.OK(t, err)
	var file, inner map[string]json.RawMessage
	test.OK(t, json.Unmarshal(text, &file))
	test.OK(t, json.Unmarshal(file["model"], &inner))
	maps.Copy(inner, model)
	if file["model"], err = json.Marshal(inner); err != nil {
		t.Fatal(err)
	}
	maps.Copy(file, set)
	if text, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	return parse(map[string][]byte{tokenizerFile: text})
}

func TestGolden(t *testing.T) {
	for name, numbers := range map[string][2]int{"gpt2": {485, 151}, "llama3": {485, 150}} {
		t.Run(name, func(t *testing.T) {
			var g golden
			readGzip(t, name+"/cases.json.gz", &g)
			if len(g.Cases) != numbers[0] || len(g.Decode) != numbers[1] {
				t.Fatalf("%d cases and %d decodings, want %v", len(g.Cases), len(g.Decode), numbers)
			}
			checkGolden(t, load(t, name), &g)
		})
	}
	t.Run("llama3 with merges as pairs", func(t *testing.T) {
		var file struct{ Model struct{ Merges []string } }
		text := test.Must(os.ReadFile("testdata/llama3/tokenizer.json"))(t)
		test.OK(t, json.Unmarshal(text, &file))
		var pairs [][]string
		for _, m := range file.Model.Merges {
			pairs = append(pairs, strings.Split(m, " "))
		}
		merges := test.Must(json.MarshalIndent(pairs, "", "  "))(t)
		k := test.Must(changed(t, "llama3", nil, map[string]json.RawMessage{"merges": merges}))(t)
		var g golden
		readGzip(t, "llama3/cases.json.gz", &g)
		checkGolden(t, k, &g)
	})
}

func checkGolden(t *testing.T, k *Tokenizer, g *golden) {
	e := k.NewEncoder()
	for _, c := range g.Cases {
		test.EqualSlices(t, e.Encode(nil, c.Text), c.IDs, "encode %q", c.Text)
		if got := k.Encode(c.Text); c.Sequence != nil && !slices.Equal(got, c.Sequence) {
			t.Errorf("encode the sequence %q: got %v, want %v", c.Text, got, c.Sequence)
		}
		checkDecode(t, k, c.IDs, c.Decoded, c.Skipped)
	}
	for _, c := range g.Decode {
		checkDecode(t, k, c.IDs, c.Decoded, k.DecodeText(c.IDs))
	}
}

// checkDecode decodes ids at once and as a stream. It checks that the stream returns only whole characters.
func checkDecode(t *testing.T, k *Tokenizer, ids []int32, all, text string) {
	t.Helper()
	test.Equal(t, k.Decode(ids), all, "decode %v", ids)
	test.Equal(t, k.DecodeText(ids), text, "decode %v without special tokens", ids)
	for want, s := range map[string]*Decoder{all: k.NewStream(false), text: k.NewStream(true)} {
		for range 2 { // after End a stream begins anew
			var b strings.Builder
			for _, id := range ids {
				part := s.Next(id)
				if !utf8.ValidString(part) {
					t.Errorf("stream %v: %q splits a character", ids, part)
				}
				b.WriteString(part)
			}
			b.WriteString(s.End())
			if all != text && b.String() != want || all == text && b.String() != all {
				t.Errorf("stream %v: got %q, want %q", ids, b.String(), want)
			}
		}
	}
}

func TestVariants(t *testing.T) {
	var v variants
	readGzip(t, "variants.json.gz", &v)
	if len(v.Texts) != 73 || len(v.Variants) != 17 {
		t.Fatalf("%d texts and %d variants", len(v.Texts), len(v.Variants))
	}
	for _, c := range v.Variants {
		t.Run(c.Name, func(t *testing.T) {
			k := test.Must(changed(t, c.Base, c.Set, c.Model))(t)
			e := k.NewEncoder()
			for i, text := range v.Texts {
				test.EqualSlices(t, e.Encode(nil, text), c.IDs[i], "encode %q", text)
				test.EqualSlices(t, e.EncodeSequence(nil, text), c.Sequence[i], "encode the sequence %q", text)
				checkDecode(t, k, c.IDs[i], c.Decoded[i], c.Skipped[i])
			}
		})
	}
}

// TestFloats: the whole numbers of tokenizer.json may be written as floats. Digits in its texts are no numbers.
func TestFloats(t *testing.T) {
	for _, name := range []string{"llama3", "llama2", "gpt2"} {
		file, err := os.ReadFile(filepath.Join("testdata", name, tokenizerFile))
		test.OK(t, err)
		floats := regexp.MustCompile(`(?m)(": ?[0-9]+)([,}]|$)`).ReplaceAll(file, []byte("$1.0$2"))
		want := test.Must(parse(map[string][]byte{tokenizerFile: file}))(t)
		got, err := parse(map[string][]byte{tokenizerFile: floats})
		if err != nil || bytes.Equal(file, floats) {
			t.Fatalf("%s: %v", name, err)
		}
		const text = "the 4.0 or 1e3 of 7.0,\n 00"
		if got.Size() != want.Size() || !slices.Equal(got.Encode(text), want.Encode(text)) {
			t.Errorf("%s: %v, want %v", name, got.Encode(text), want.Encode(text))
		}
	}
}

func TestConfig(t *testing.T) {
	llama3, llama2, gpt2 := load(t, "llama3"), load(t, "llama2"), load(t, "gpt2")
	if llama3.BOS() != 900 || llama3.EOS() != 909 && llama3.EOS() != 901 || llama3.Pad() != -1 &&
		!llama3.Known(llama3.Pad()) {
		t.Errorf("llama3: bos %d, eos %d, pad %d", llama3.BOS(), llama3.EOS(), llama3.Pad())
	}
	if llama2.BOS() != 1 || llama2.EOS() != 2 || !llama2.IsSpecial(0) || llama2.IsSpecial(5) || llama2.IsSpecial(-1) {
		t.Errorf("llama2: bos %d, eos %d", llama2.BOS(), llama2.EOS())
	}
	if gpt2.Size() != 757 || gpt2.Known(757) || gpt2.Known(-1) || !gpt2.Known(756) {
		t.Errorf("gpt2: size %d", gpt2.Size())
	}
	if id, ok := gpt2.ID("Ġthe"); !ok || gpt2.Decode([]int32{id}) != " the" {
		t.Errorf("Ġthe: %d, %v", id, ok)
	}
	file := test.Must(os.ReadFile("testdata/llama2/tokenizer.json"))(t)
	for _, c := range []struct {
		config, specials string
		want             []int32
	}{
		{`{}`, `{}`, []int32{1, 9}},
		{`{"add_bos_token": false, "bos_token": "<s>"}`, `{}`, []int32{9}},
		{`{"add_eos_token": true, "eos_token": {"content": "</s>"}}`, `{}`, []int32{1, 9, 2}},
		{`{"add_eos_token": true, "eos_token": "<eot>", "added_tokens_decoder": {"2000": {"content": "<eot>", ` +
			`"special": true}}}`, `{}`, []int32{1, 9, 2000}},
	} {
		k := test.Must(parse(map[string][]byte{tokenizerFile: file, configFile: []byte(c.config),
			mapFile: []byte(c.specials)}))(t)
		got := k.Encode("\x06") // Prepend makes it ▁ and the byte 6
		if len(got) < 2 || got[len(got)-1] != c.want[len(c.want)-1] || got[0] == 1 != (c.want[0] == 1) {
			t.Errorf("%s: got %v", c.config, got)
		}
		prompt := got
		if last := got[len(got)-1]; last == k.EOS() {
			prompt = got[:len(got)-1]
		}
		test.EqualSlices(t, k.NewEncoder().EncodePrompt(nil, "\x06"), prompt, "%s: the prompt", c.config)
	}
	k := test.Must(parse(map[string][]byte{tokenizerFile: file, mapFile: []byte(`{"bos_token": "<s>", "eos_token": ` +
		`{"content": "</s>"}, "pad_token": null}`),
		templateFile: []byte("{{ bos_token }}x")}))(t)
	if k.BOS() != 1 || k.EOS() != 2 || k.Pad() != -1 {
		t.Errorf("special_tokens_map.json: bos %d, eos %d, pad %d", k.BOS(), k.EOS(), k.Pad())
	}
	template := test.Must(k.ChatTemplate(""))(t)
	if got, err := template.Render(Chat{Messages: Messages()}); got != "<s>x" || err != nil {
		t.Errorf("chat_template.jinja: %q, %v", got, err)
	}
}

func TestEncodeDoesNotAllocate(t *testing.T) {
	text := strings.Repeat("The quick brown fox, 人工智能 and 12345 others don't stop.\n", 20)
	for _, name := range []string{"gpt2", "llama3"} {
		e := load(t, name).NewEncoder()
		ids := e.Encode(nil, text)
		test.NoAllocs(t, 20, func() { ids = e.Encode(ids[:0], text) }, "%s", name)
	}
}

// An encoder gives the same ids as a new one, whatever words it has cached or dropped from its cache.
func TestCacheDoesNotChangeIDs(t *testing.T) {
	k := load(t, "llama3")
	e := k.NewEncoder()
	var b bytes.Buffer
	for i := range 3 * cacheWords {
		b.Reset()
		for n := i + 1; n > 0; n /= 26 {
			b.WriteByte(byte('a' + n%26))
		}
		word := b.String()
		got := e.Encode(nil, word)
		if again := e.Encode(nil, word); !slices.Equal(got, again) {
			t.Fatalf("%q: %v, then %v", word, got, again)
		}
		if i%997 == 0 && !slices.Equal(got, k.NewEncoder().Encode(nil, word)) {
			t.Fatalf("%q: %v", word, got)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	var g golden
	readGzip(b, "llama3/cases.json.gz", &g)
	var text strings.Builder
	for _, c := range g.Cases {
		text.WriteString(c.Text)
	}
	for _, name := range []string{"gpt2", "llama3", "llama2"} {
		k := load(b, name)
		for _, cached := range []bool{true, false} {
			b.Run(name+map[bool]string{true: "", false: "/cold"}[cached], func(b *testing.B) {
				b.SetBytes(int64(text.Len()))
				e := k.NewEncoder()
				var ids []int32
				for b.Loop() {
					if !cached {
						e = k.NewEncoder()
					}
					ids = e.Encode(ids[:0], text.String())
				}
			})
		}
	}
}

// BenchmarkEncodeWords encodes words that never repeat, and one word of a mebibyte. RLINF_TOKENIZER names the folder of
// one more tokenizer to measure.
func BenchmarkEncodeWords(b *testing.B) {
	dirs := []string{"testdata/gpt2", "testdata/llama3", "testdata/llama2"}
	if dir := os.Getenv("RLINF_TOKENIZER"); dir != "" {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		k := test.Must(Load(dir))(b)
		for _, long := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/long=%v", filepath.Base(dir), long), func(b *testing.B) {
				text, size := make([]byte, 1<<20), 0
				random := rand.New(rand.NewPCG(1, 2))
				for i := range text {
					if text[i] = byte('a' + random.IntN(26)); !long && size > 2+random.IntN(12) {
						text[i], size = ' ', 0
					}
					size++
				}
				b.SetBytes(int64(len(text)))
				e := k.NewEncoder()
				var ids []int32
				for b.Loop() {
					ids = e.Encode(ids[:0], string(text))
				}
			})
		}
	}
}

package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// sample is a text for training, in two parts.
var sample = []string{
	strings.Repeat("The robot puts the red cube on the table. Then it puts the blue cube beside the red one.\n", 3) +
		"It can't reach 12 cubes, or 345. <|end|>",
	"机器人把方块放在桌子上。机器人又把方块放下。\n\tfor i := range cubes {\n\t\tcubes[i].Put(table)\n\t}\n<|start|>the end",
}

func TestTrain(t *testing.T) {
	for pattern := range trainable {
		o := Training{VocabSize: 310, Pattern: pattern, MinCount: 2, Special: []string{"<|start|>", "<|end|>"},
			BOS: "<|start|>", EOS: "<|end|>", Pad: "<|end|>",
			AddBOS: pattern == "llama3", ChatTemplate: "{{ bos_token }}"}
		dir, other := t.TempDir(), filepath.Join(t.TempDir(), "new")
		k, err := Train(dir, slices.Values(sample), o)
		test.OK(t, err)
		if k.Size() != 310 || k.BOS() != 308 || k.EOS() != 309 || k.Pad() != 309 || !k.IsSpecial(308) {
			t.Errorf("%s: size %d, bos %d, eos %d, pad %d", pattern, k.Size(), k.BOS(), k.EOS(), k.Pad())
		}
		ids := k.Encode(sample[0])
		if (ids[0] == 308) != o.AddBOS || ids[len(ids)-1] != 309 ||
			strings.TrimPrefix(k.Decode(ids), "<|start|>") != sample[0] {
			t.Errorf("%s: %v is %q", pattern, ids, k.Decode(ids))
		}
		if template, err := k.ChatTemplate(""); err != nil || template.jinja == nil {
			t.Errorf("%s: %v", pattern, err)
		}
		if want := slowTraining(o, 310-256-2); !slices.EqualFunc(want, mergesOf(t, dir), func(a, b string) bool {
			return a == b
		}) {
			t.Errorf("%s: merges\n got %q\nwant %q", pattern, mergesOf(t, dir), want)
		}
		test.Must(Train(other, slices.Values([]string{sample[1], sample[0]}), o))(t)
		for _, name := range []string{tokenizerFile, configFile} {
			a, b := read(t, filepath.Join(dir, name)), read(t, filepath.Join(other, name))
			if !bytes.Equal(a, b) {
				t.Errorf("%s: %s depends on the order of the texts", pattern, name)
			}
		}
		copied := t.TempDir()
		test.OK(t, Copy(copied, dir))
		again, err := Load(copied)
		if err != nil || !slices.Equal(again.Encode(sample[1]), k.Encode(sample[1])) {
			t.Errorf("%s: the copy: %v", pattern, err)
		}
	}
	if err := Copy(t.TempDir(), t.TempDir()); err == nil {
		t.Error("a folder without a tokenizer is copied")
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text := test.Must(os.ReadFile(path))(t)
	return text
}

func mergesOf(t *testing.T, dir string) []string {
	t.Helper()
	var file struct{ Model struct{ Merges []string } }
	test.OK(t, json.Unmarshal(read(t, filepath.Join(dir, tokenizerFile)), &file))
	return file.Model.Merges
}

// slowTraining trains like Train, but counts all pairs anew for each merge.
func slowTraining(o Training, merges int) (out []string) {
	tr := newTrainer(&o)
	for _, text := range sample {
		tr.count(text)
	}
	tr.prepare()
	for range merges {
		counts := map[[2]int32]int{}
		for _, w := range tr.words {
			for i := range len(w.ids) - 1 {
				counts[[2]int32{w.ids[i], w.ids[i+1]}] += w.count
			}
		}
		best := [2]int32{-1, -1}
		for pair, n := range counts {
			if c := counts[best]; n > c || n == c && (pair[0] < best[0] || pair[0] == best[0] && pair[1] < best[1]) {
				best = pair
			}
		}
		if counts[best] < o.MinCount {
			break
		}
		id := tr.learn(tr.vocab[best[0]] + tr.vocab[best[1]])
		out = append(out, tr.vocab[best[0]]+" "+tr.vocab[best[1]])
		for i := range tr.words {
			var ids []int32
			for w := tr.words[i].ids; len(w) > 0; w = w[1:] {
				if len(w) > 1 && w[0] == best[0] && w[1] == best[1] {
					ids, w = append(ids, id), w[1:]
				} else {
					ids = append(ids, w[0])
				}
			}
			tr.words[i].ids = ids
		}
	}
	return out
}

func TestTrainLittle(t *testing.T) {
	k := test.Must(Train(t.TempDir(), slices.Values([]string{"aaaa aa", ""}),
		Training{VocabSize: 1000, Pattern: "gpt2", MinCount: 1}))(t)
	if text := "aaaaaaa b é"; k.Decode(k.Encode(text)) != text || k.Size() != 259 || k.BOS() != -1 {
		t.Errorf("size %d, %v", k.Size(), k.Encode(text))
	}
	for _, c := range []struct {
		o    Training
		want string
	}{
		{Training{VocabSize: 255, Pattern: "gpt2", MinCount: 1},
			"vocabulary of 255: expected from 256 (256 bytes and 0 special tokens)"},
		{Training{VocabSize: 300, Pattern: "bert", MinCount: 1}, `pattern "bert": expected one of gpt2, llama3, qwen2`},
		{Training{VocabSize: 300, Pattern: "gpt2"}, "MinCount 0: expected 1 or more"},
		{Training{VocabSize: 300, Pattern: "gpt2", MinCount: 1, Special: []string{"a", "a"}},
			`special token "a": expected texts that are not empty, each once`},
		{Training{VocabSize: 300, Pattern: "gpt2", MinCount: 1, EOS: "x"},
			`"x": expected one of the special tokens []`},
		{Training{VocabSize: 300, Pattern: "gpt2", MinCount: 1, AddBOS: true}, "expected a special token as BOS"},
	} {
		if _, err := Train(t.TempDir(), slices.Values(sample), c.o); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// The queue of long pieces gives the same tokens as a linear search, for random merges with many ties and chains.
func TestMergeLong(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := int32(2 + random.IntN(4))
		var merges []merge
		seen := map[[2]int32]bool{}
		for id := n; id < n+20; id++ {
			pair := [2]int32{random.Int32N(id), random.Int32N(id)}
			if !seen[pair] {
				merges = append(merges, merge{pair[0], pair[1], n + random.Int32N(id-n+1)}) // some make the same token
			}
			seen[pair] = true
		}
		random.Shuffle(len(merges), func(i, j int) { merges[i], merges[j] = merges[j], merges[i] })
		table := newMergeTable(merges)
		ids := make([]int32, shortPiece+1+random.IntN(100))
		for i := range ids {
			ids[i] = random.Int32N(n)
		}
		want := slices.Clone(ids)
		for {
			best, at := noMerge, 0
			for i := range len(want) - 1 {
				if r := table.result(want[i], want[i+1]); r < best {
					best, at = r, i
				}
			}
			if best == noMerge {
				break
			}
			want = slices.Replace(want, at, at+2, int32(best&0xffffffff))
		}
		var w merger
		if got := w.merge(&table, slices.Clone(ids)); !slices.Equal(got, want) {
			t.Fatalf("%v\n got %v\nwant %v", ids, got, want)
		}
	}
}

// Pieces that are merged in windows give the same tokens as merging all at once, for random merges and for chains
// longer than a window.
func TestMergeWindows(t *testing.T) {
	check := func(name string, merges []merge, ids []int32) {
		t.Helper()
		table := newMergeTable(merges)
		var w merger
		want := slices.Clone(ids)
		w.lookUp(&table, want)
		want = w.mergeLong(&table, want)
		for _, length := range []int32{8, 30, windowLength} {
			if int(length) >= len(ids) {
				continue
			}
			if got := w.mergeWindows(&table, slices.Clone(ids), length, length/16+2); !slices.Equal(got, want) {
				t.Fatalf("%s, windows of %d: %d tokens become %d, want %d", name, length, len(ids), len(got), len(want))
			}
		}
	}
	random, rounds := rand.New(rand.NewPCG(3, 4)), 200
	if testing.Short() {
		rounds = 12
	}
	for i := range rounds {
		n := int32(1 + random.IntN(5))
		var merges []merge
		seen := map[[2]int32]bool{}
		for id := n; id < n+60; id++ {
			pair := [2]int32{max(random.Int32N(id), random.Int32N(id)), random.Int32N(id)} // long tokens on the left
			if i%2 == 0 {
				pair[0], pair[1] = pair[1], pair[0]
			}
			if !seen[pair] {
				merges = append(merges, merge{pair[0], pair[1], id})
			}
			seen[pair] = true
		}
		if i%3 == 0 {
			random.Shuffle(len(merges), func(i, j int) { merges[i], merges[j] = merges[j], merges[i] })
		}
		ids := make([]int32, windowLength+1+random.IntN(3*windowLength))
		for i := range ids {
			ids[i] = random.Int32N(n)
		}
		check(fmt.Sprint("random ", i), merges, ids)
	}
	const a, end, first = 0, 1, 2
	right, left := []merge{{a, end, first}}, []merge{{end, a, first}}
	for id := int32(first); id < 3*windowLength; id++ {
		right, left = append(right, merge{a, id, id + 1}), append(left, merge{id, a, id + 1})
	}
	for _, n := range []int{windowLength, windowLength + 1, windowLength + windowOverlap, 2*windowLength + 7} {
		ids := make([]int32, n)
		check("no merge", right, ids)
		ids[n-1] = end
		check("one token, from the end", right, ids)
		ids[n-1], ids[0] = a, end
		check("one token, from the start", left, ids)
		ids[0], ids[n/3], ids[n/2] = a, end, end
		check("tokens from the middle", left, ids)
	}
}

package vla

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/policy/lm/tokenizer"
)

// words lists words that are common in instructions to robots. In the built-in tokenizer, each of these words is one
// token. Their tokens follow those of the 256 bytes. Other words are spelt in bytes.
var words = strings.Fields(`
	a an and are at away back before behind below beside between by close down first from front in inside into is it
	last left lower middle near next not of off on onto open or out over right second so that the then third to
	together top toward towards turn under until up upper with without
	align bring carry clear close collect drop flip gather give go grab grasp hold insert keep lay leave let lift move
	pick place point pour press pull push put reach release remove return rotate separate set shift slide sort stack
	stay stop swap take throw tilt touch turn wait
	area arm bin block blocks bottle bowl box button can center centre corner cube cubes cup door drawer edge end
	finger fingers floor goal gripper ground hand handle item lever lid object objects peg place plate ring robot shelf
	side side sphere spot stick table target tower tray wall zone zones ball balls
	big black blue brown cyan dark gray green grey heavy high large light long low magenta narrow orange pink purple
	red round short small square tall violet white wide yellow
	one two three four five six seven eight nine ten all both each every other same
	. , ; : ! ?`)

// A reader converts instructions to tokens, with the tokenizer of the trunk's folder or with the built-in tokenizer. It
// caches the tokens of earlier texts.
type reader struct {
	encoder   *tokenizer.Encoding // nil means the built-in tokenizer
	ids       map[string]int32    // tokens of common words
	maxTokens int                 // largest number of tokens of an instruction
	seen      map[string][]int32
	text      []byte // of the last readWords
}

// vocabulary returns the number of tokens of the built-in tokenizer.
func vocabulary() int { return 256 + len(words) }

func newReader(t *tokenizer.Tokenizer, maxTokens int) *reader {
	r := &reader{maxTokens: maxTokens, seen: map[string][]int32{}}
	if t != nil {
		r.encoder = t.NewEncoder()
		return r
	}
	r.ids = map[string]int32{}
	for i, w := range words {
		if _, ok := r.ids[w]; !ok {
			r.ids[w] = int32(256 + i)
		}
	}
	return r
}

// readWords returns the tokens of an instruction that is given as indices into words; 0 means no word.
// It allocates only for new instructions.
func (r *reader) readWords(numbers []int32, words []string) ([]int32, error) {
	r.text = r.text[:0]
	for _, n := range numbers {
		if n < 0 || int(n) >= len(words) {
			return nil, fmt.Errorf("word %d of an instruction: expected 0 to %d", n, len(words)-1)
		}
		if n == 0 {
			continue
		}
		if len(r.text) > 0 {
			r.text = append(r.text, ' ')
		}
		r.text = append(r.text, words[n]...)
	}
	return r.read(r.text)
}

// maxCached is the maximum number of instructions in the cache of a reader.
const maxCached = 1 << 14

// read returns the tokens of a text. The text ends at the first zero byte. It allocates only for new texts.
func (r *reader) read(text []byte) ([]int32, error) {
	text, _, _ = bytes.Cut(text, []byte{0})
	if ids, ok := r.seen[string(text)]; ok {
		return ids, nil
	}
	var ids []int32
	if r.encoder != nil {
		ids = r.encoder.EncodeSequence(nil, string(text))
	} else {
		ids = r.spell(string(text))
	}
	if len(ids) > r.maxTokens {
		return nil, fmt.Errorf("%q has %d tokens: expected at most %d (actor.model.max_prompt_length)", text, len(ids),
			r.maxTokens)
	}
	if len(r.seen) >= maxCached {
		clear(r.seen)
	}
	r.seen[string(text)] = ids
	return ids, nil
}

// spell returns the tokens of a text. A common word (see words) is one token. Any other word has one token for each
// byte.
func (r *reader) spell(text string) (ids []int32) {
	for _, word := range strings.Fields(text) {
		lower := strings.ToLower(word)
		end := strings.TrimRight(lower, ".,;:!?")
		for _, part := range []string{end, lower[len(end):]} {
			if id, ok := r.ids[part]; ok {
				ids = append(ids, id)
				continue
			}
			for i := range len(part) {
				ids = append(ids, int32(part[i]))
			}
		}
	}
	return ids
}

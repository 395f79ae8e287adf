package text

import (
	"slices"

	"github.com/rlinf/rlinf/policy/lm/tokenizer"
)

// A growing text is encoded piece by piece. Its tokens are those of the whole text, as long as these begin with the
// earlier tokens. If a token would cross from the earlier text into the new piece, the new piece is encoded by itself,
// without the blank that some tokenizers put before a text. So the tokens of a prompt stay those that a model sees when
// it answers.
type growing struct {
	encoder *tokenizer.Encoding
	text    string
	ids     []int32 // tokens of text
	seam    int     // the text from here on is encoded by itself
	before  int     // number of tokens before the seam
}

// begin adds the tokens that the tokenizer puts before a sequence. Texts of chat templates have these tokens already.
func (g *growing) begin() {
	g.ids = g.encoder.EncodePrompt(nil, "")
	g.before = len(g.ids)
}

// extend replaces the text by a longer one, which begins with the present text. It returns the tokens that are added.
func (g *growing) extend(text string) (added []int32) {
	n := len(g.ids)
	whole := g.encode(text)
	if len(whole) < n || !slices.Equal(whole[:n], g.ids) {
		g.seam, g.before = len(g.text), n
		whole = g.encode(text)
	}
	g.text, g.ids = text, whole
	return slices.Clone(whole[n:])
}

// encode returns the tokens of a text that begins with g.text.
func (g *growing) encode(text string) []int32 {
	ids := slices.Clone(g.ids[:g.before])
	if g.seam > 0 {
		return g.encoder.Continue(ids, text[g.seam:])
	}
	return g.encoder.Encode(ids, text)
}

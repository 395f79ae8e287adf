package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A decodeStep is a step of the decoder. It processes the text of each token in turn, and passes the result to the next
// step.
type decodeStep struct {
	kind     decodeKind
	old, new string // for replaceText: new replaces old; for metaspaceToBlank: old becomes a space
	count    int    // for stripStart: maximum number of characters (old) that are removed
	strip    bool   // for metaspaceToBlank: remove the spaces of the first token
	fused    bool   // for stripStart: remove at the start of the whole text, not of each token
}

type decodeKind uint8

const (
	byteLevelDecoder decodeKind = iota + 1 // tokens are bytes; there is no other step
	replaceText
	metaspaceToBlank
	byteFallback // tokens <0xNN> are bytes; if a run of bytes is not UTF-8, each byte becomes U+FFFD
	stripStart
)

// readDecoder returns the steps of the decoder, at least one.
func readDecoder(v value) []decodeStep {
	parts := []value{v}
	if o := v.object(); o.textOr("type", "") == "Sequence" {
		parts = o.get("decoders").list()
	}
	var steps []decodeStep
	fused := false
	for _, part := range parts {
		o := part.object()
		kind := o.get("type")
		name := kind.text()
		if name == "Fuse" {
			fused = true
			continue
		}
		if fused && name != "Strip" {
			kind.fail("only Strip after Fuse")
		}
		switch name {
		case "ByteLevel":
			if len(parts) > 1 {
				kind.fail("ByteLevel as the only decoder")
			}
			steps = append(steps, decodeStep{kind: byteLevelDecoder})
		case "Replace":
			old, with := readPattern(o.get("pattern")), o.get("content").text()
			steps = append(steps, decodeStep{kind: replaceText, old: old, new: with})
		case "Metaspace":
			letter, scheme, _ := readMetaspace(o)
			steps = append(steps, decodeStep{kind: metaspaceToBlank, old: letter, strip: scheme != "never"})
		case "ByteFallback":
			steps = append(steps, decodeStep{kind: byteFallback})
		case "Strip":
			steps = append(steps, readStrip(o, fused))
		default:
			kind.unsupported("Sequence", "ByteLevel", "Replace", "Metaspace", "ByteFallback", "Fuse", "Strip")
		}
	}
	if len(steps) == 0 {
		v.fail("a decoder with at least one step")
		steps = append(steps, decodeStep{})
	}
	return steps
}

func readStrip(o object, fused bool) decodeStep {
	s := decodeStep{kind: stripStart, old: o.get("content").text(), fused: fused}
	if utf8.RuneCountInString(s.old) != 1 {
		o.get("content").fail("one character")
	}
	if stop := o.get("stop"); !stop.isNull() && string(stop.raw) != "0" {
		stop.unsupported("0")
	}
	o.get("start").decode(&s.count, "a number")
	if s.count < 0 {
		o.get("start").fail("a number ≥ 0")
	}
	return s
}

// Decode returns the text of ids, including special tokens. Ids without a token have no text.
func (t *Tokenizer) Decode(ids []int32) string { return t.decode(ids, false) }

// DecodeText returns the text of ids without special tokens.
func (t *Tokenizer) DecodeText(ids []int32) string { return t.decode(ids, true) }

func (t *Tokenizer) decode(ids []int32, skipSpecial bool) string {
	s := Decoder{t: t, skipSpecial: skipSpecial}
	for _, id := range ids {
		s.add(id)
	}
	s.end()
	return string(s.out)
}

// A Decoder decodes ids one at a time, as they are generated. Concatenated, the results of Next and End are the text
// that Decode or DecodeText returns.
type Decoder struct {
	t           *Tokenizer
	skipSpecial bool

	out   []byte // complete text
	bytes []byte // bytes of an incomplete character; with byteFallback, the current run of bytes
	begun bool   // whether a token was added
	strip []int  // number of characters that each stripStart step of the decoder has removed
}

// NewStream returns a Decoder. If skipSpecial is true, the Decoder leaves out special tokens.
func (t *Tokenizer) NewStream(skipSpecial bool) *Decoder {
	return &Decoder{t: t, skipSpecial: skipSpecial}
}

// Next returns the text that an id completes. The text is empty while a character is incomplete.
func (s *Decoder) Next(id int32) string {
	s.out = s.out[:0]
	s.add(id)
	return string(s.out)
}

// End returns the rest of the text, with U+FFFD for bytes that are not UTF-8. Afterwards the Decoder can decode another
// text.
func (s *Decoder) End() string {
	s.out = s.out[:0]
	s.end()
	return string(s.out)
}

func (s *Decoder) add(id int32) {
	if !s.t.Known(id) {
		return
	}
	token := s.t.tokens[id]
	switch {
	case token.kind == special && s.skipSpecial:
	case s.t.decoder[0].kind != byteLevelDecoder:
		s.pass(0, token.text)
		s.begun = true
	case token.kind == ordinary:
		s.bytes = append(s.bytes, token.text...)
		s.out, s.bytes = appendCharacters(s.out, s.bytes, false)
	default:
		s.out, s.bytes = appendCharacters(s.out, s.bytes, true)
		s.out = append(s.out, token.text...)
	}
}

func (s *Decoder) end() {
	if s.t.decoder[0].kind == byteLevelDecoder {
		s.out, s.bytes = appendCharacters(s.out, s.bytes, true)
	}
	for i := range s.t.decoder {
		if s.t.decoder[i].kind == byteFallback {
			s.flush(i)
		}
	}
	s.begun, s.strip = false, nil
}

// pass applies step i and all later steps to the text of a token.
func (s *Decoder) pass(i int, text string) {
	if i == len(s.t.decoder) {
		s.out = append(s.out, text...)
		return
	}
	switch step := &s.t.decoder[i]; step.kind {
	case replaceText:
		s.pass(i+1, strings.ReplaceAll(text, step.old, step.new))
	case metaspaceToBlank:
		with := " "
		if step.strip && !s.begun {
			with = ""
		}
		s.pass(i+1, strings.ReplaceAll(text, step.old, with))
	case byteFallback:
		if b, ok := byteToken(text); ok {
			s.bytes = append(s.bytes, b)
			return
		}
		s.flush(i)
		s.pass(i+1, text)
	case stripStart:
		s.passStripped(i, text)
	}
}

// byteToken returns the byte of a token <0xNN>.
func byteToken(text string) (byte, bool) {
	if len(text) != 6 || !strings.HasPrefix(text, "<0x") || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(b), err == nil
}

// flush passes the bytes that step i has collected in s.bytes to the next step.
func (s *Decoder) flush(i int) {
	if len(s.bytes) == 0 {
		return
	}
	text := string(s.bytes)
	if !utf8.ValidString(text) {
		text = strings.Repeat("\ufffd", len(s.bytes))
	}
	s.bytes = s.bytes[:0]
	s.pass(i+1, text)
}

// passStripped removes characters from the start of text, up to the maximum of step i, and passes the rest to the next
// step.
func (s *Decoder) passStripped(i int, text string) {
	step := &s.t.decoder[i]
	if s.strip == nil {
		s.strip = make([]int, len(s.t.decoder))
	}
	for s.strip[i] < step.count && strings.HasPrefix(text, step.old) {
		text = text[len(step.old):]
		s.strip[i]++
	}
	if !step.fused {
		s.strip[i] = 0
	} else if text != "" {
		s.strip[i] = step.count
	}
	s.pass(i+1, text)
}

// appendCharacters appends the whole characters of text, in UTF-8, to dst. It returns the bytes of an incomplete
// character at the end. Each maximal subpart of an ill-formed character becomes one U+FFFD, as Unicode recommends
// (chapter 3.9). If final is true, an incomplete character counts as ill-formed, too.
func appendCharacters(dst, text []byte, final bool) (out, rest []byte) {
	at := 0
	for at < len(text) {
		if r, size := utf8.DecodeRune(text[at:]); r != utf8.RuneError || size > 1 {
			dst = append(dst, text[at:at+size]...)
			at += size
			continue
		}
		n := subpart(text[at:])
		if !final && at+n == len(text) && !utf8.FullRune(text[at:]) {
			break
		}
		dst = append(dst, "\ufffd"...)
		at += n
	}
	return dst, append(text[:0], text[at:]...)
}

// subpart returns the length of the longest prefix of b that is the beginning of a character. The length is at least 1.
// b must not begin with a whole character.
func subpart(b []byte) int {
	n := 1
	for n < len(b) && n < utf8.UTFMax && !utf8.FullRune(b[:n]) {
		n++
	}
	if n > 1 && utf8.FullRune(b[:n]) {
		n--
	}
	return n
}

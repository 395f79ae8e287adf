package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// readModel reads the vocabulary and the merges.
func (t *Tokenizer) readModel(v value, byteLevel bool) {
	o := v.object()
	if kind := o.textOr("type", "BPE"); kind != "BPE" {
		o.get("type").unsupported("BPE")
	}
	o.mustBe("dropout", "0.0")
	o.mustBe("continuing_subword_prefix", `""`)
	o.mustBe("end_of_word_suffix", `""`)
	o.get("vocab").decode(&t.ids, "an object with an id for each token")
	if v.reader.err != nil || !t.placeTokens(o.get("vocab")) {
		return
	}
	m := &t.model
	m.fuse = o.flag("fuse_unk", false)
	m.unknown = -1
	if unk := o.textOr("unk_token", ""); unk != "" {
		id, ok := t.ids[unk]
		if !ok {
			o.get("unk_token").fail("a token of model.vocab")
			return
		}
		m.unknown = id
	}
	ignoreMerges := o.flag("ignore_merges", false)
	if byteLevel {
		t.readBytes(o, ignoreMerges)
	} else {
		t.readChars(o, ignoreMerges)
	}
	if merges := t.readMerges(o.get("merges")); v.reader.err == nil {
		m.merges = newMergeTable(merges)
		m.atWords = !byteLevel && !ignoreMerges && t.mergesInWords(merges)
	}
}

// placeTokens fills t.tokens, the table of tokens by id. Every id must be a valid index and occur once.
func (t *Tokenizer) placeTokens(v value) bool {
	if t.ids == nil {
		v.fail("an object with an id for each token")
		return false
	}
	highest, wrong := int32(-1), ""
	for text, id := range t.ids {
		highest = max(highest, id)
		if (id < 0 || id > maxID) && (wrong == "" || text < wrong) {
			wrong = text
		}
	}
	at := func(text string) value {
		return value{v.reader, v.at + "[" + short(strconv.Quote(text)) + "]", []byte(strconv.Itoa(int(t.ids[text])))}
	}
	if highest > maxID || wrong != "" {
		at(wrong).fail(fmt.Sprintf("a token id from 0 to %d", maxID))
		return false
	}
	t.tokens = make([]token, highest+1)
	twice := highest + 1
	for text, id := range t.ids {
		if t.tokens[id].kind != gap {
			twice = min(twice, id)
		}
		t.tokens[id] = token{text, ordinary}
	}
	if twice <= highest {
		var texts []string
		for text, id := range t.ids {
			if id == twice {
				texts = append(texts, text)
			}
		}
		slices.Sort(texts)
		at(texts[1]).fail(fmt.Sprintf("an id of its own; %q has it, too", texts[0]))
		return false
	}
	return true
}

// readBytes prepares a byte-level model. The vocabulary of such a model writes bytes as letters.
func (t *Tokenizer) readBytes(o object, ignoreMerges bool) {
	m := &t.model
	m.bytes = new([256]int32)
	complete := true
	for b := range m.bytes {
		id, ok := t.ids[string(byteLetter(byte(b)))]
		if !ok {
			id, complete = -1, false
		}
		m.bytes[b] = id
	}
	if o.flag("byte_fallback", false) && !complete {
		o.get("byte_fallback").unsupported("false with a ByteLevel pre-tokenizer whose vocabulary lacks a byte")
	}
	if ignoreMerges {
		m.pieces = make(map[string]int32, len(t.ids))
		for text, id := range t.ids {
			if raw, ok := lettersToBytes(nil, text); ok {
				m.pieces[string(raw)] = id
			}
		}
	}
}

// readChars prepares a model that works on characters.
func (t *Tokenizer) readChars(o object, ignoreMerges bool) {
	m := &t.model
	m.chars = map[string]int32{}
	for text, id := range t.ids {
		if utf8.RuneCountInString(text) == 1 {
			m.chars[text] = id
		}
	}
	if ignoreMerges {
		m.pieces = t.ids
	}
	if o.flag("byte_fallback", false) {
		m.fallback = new([256]int32)
		for b := range m.fallback {
			id, ok := t.ids[fmt.Sprintf("<0x%02X>", b)]
			if !ok {
				id = -1
			}
			m.fallback[b] = id
		}
	}
}

// readMerges reads the merges. Each merge is a pair of tokens. In older files, it is a text of two tokens with a space
// between them.
func (t *Tokenizer) readMerges(v value) []merge {
	var texts []string
	var pairs [][]string
	if inside := bytes.TrimLeft(bytes.TrimPrefix(v.raw, []byte("[")), " \t\r\n"); len(inside) > 0 && inside[0] == '"' {
		v.decode(&texts, "a list of texts or of pairs")
	} else {
		v.decode(&pairs, "a list of texts or of pairs")
	}
	merges := make([]merge, 0, len(texts)+len(pairs))
	add := func(left, right string) bool {
		l, hasLeft := t.ids[left]
		r, hasRight := t.ids[right]
		id, hasBoth := t.ids[left+right]
		at := v.item(len(merges), strconv.Quote(left)+", "+strconv.Quote(right))
		switch {
		case !hasLeft || !hasRight:
			at.fail("two tokens of model.vocab")
		case !hasBoth:
			at.fail("two tokens that together are a token of model.vocab")
		}
		merges = append(merges, merge{l, r, id})
		return hasLeft && hasRight && hasBoth
	}
	for i, text := range texts {
		left, right, ok := strings.Cut(text, " ")
		if !ok || strings.Contains(right, " ") {
			v.item(i, strconv.Quote(text)).fail("two tokens with a blank between them")
			return nil
		}
		if !add(left, right) {
			return nil
		}
	}
	for i, pair := range pairs {
		if len(pair) != 2 {
			v.item(i, fmt.Sprintf("%q", pair)).fail("two tokens")
			return nil
		}
		if !add(pair[0], pair[1]) {
			return nil
		}
	}
	return merges
}

// mergesInWords reports whether ▁ is a token and no merge joins ▁ to a character before it.
func (t *Tokenizer) mergesInWords(merges []merge) bool {
	if _, ok := t.ids[metaspace]; !ok {
		return false
	}
	ends, starts := map[int32]bool{}, map[int32]bool{} // tokens that do not end in ▁; tokens that start with ▁
	for text, id := range t.ids {
		ends[id] = !strings.HasSuffix(text, metaspace)
		starts[id] = strings.HasPrefix(text, metaspace)
	}
	return !slices.ContainsFunc(merges, func(m merge) bool { return ends[m.left] && starts[m.right] })
}

// byteLetter returns the letter for a byte in byte-level vocabularies. The letter of a printable Latin-1 character is
// the character itself. The other 68 bytes have the letters from U+0100 on.
func byteLetter(b byte) rune {
	switch {
	case b <= ' ':
		return 0x100 + rune(b)
	case 0x7f <= b && b <= 0xa0:
		return 0x100 + 33 + rune(b-0x7f)
	case b == 0xad:
		return 0x100 + 67
	}
	return rune(b)
}

// lettersToBytes appends to dst the byte of each letter in text: the inverse of byteLetter. It returns false if text
// has a character that is not the letter of a byte.
func lettersToBytes(dst []byte, text string) ([]byte, bool) {
	for _, r := range text {
		switch {
		case 0x100 <= r && r < 0x100+33:
			r -= 0x100
		case 0x100+33 <= r && r < 0x100+67:
			r += 0x7f - 33 - 0x100
		case r == 0x100+67:
			r = 0xad
		case r > 0xff || byteLetter(byte(r)) != r:
			return dst, false
		}
		dst = append(dst, byte(r))
	}
	return dst, true
}

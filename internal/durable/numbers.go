package durable

import (
	"encoding/json"
	"math"
	"strconv"
)

// WholeNumbers returns JSON in which each whole number that is written with a fraction or an exponent, such as 4.0 or
// 1e3, is written without. Other programs write whole numbers so, and encoding/json does not read them as integers.
// Numbers of 2^53 or more stay as they are.
func WholeNumbers(text []byte) []byte {
	var out []byte
	for i := 0; i < len(text); {
		start := i
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			i++
		case c == '-' || '0' <= c && c <= '9':
			written := false // with a fraction or an exponent
			for ; i < len(text) && isNumeric(text[i]); i++ {
				written = written || text[i] == '.' || text[i]|0x20 == 'e'
			}
			x, err := strconv.ParseFloat(string(text[start:i]), 64)
			if written && err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53 && json.Valid(text[start:i]) {
				out = strconv.AppendInt(out, int64(x), 10)
				continue
			}
		default:
			i++
		}
		out = append(out, text[start:min(i, len(text))]...)
	}
	return out
}

// isNumeric reports whether c can be in a number of JSON.
func isNumeric(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c|0x20 == 'e' || c == '+' || c == '-'
}

package durable

import (
	"encoding/json"
	"math"
	"strconv"
)

// WholeNumbers rewrites JSON so that each whole number has only digits: 4.0 becomes 4, and 1e3 becomes 1000. Other
// programs write whole numbers with a fraction or an exponent, but encoding/json does not read these as integers.
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
			written := false // the number has a fraction or an exponent
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

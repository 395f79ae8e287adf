package report

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode"

	"github.com/rlinf/rlinf/internal/figures"
)

// plain returns s with � in place of characters that could disturb a page or a message. These are control characters,
// separators of lines, changes of direction, and invalid UTF-8.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == '\u2028' || r == '\u2029' || isDirection(r) {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// colouring matches a terminal's control sequence, such as a change of the colour.
var colouring = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// printed returns s as plain text without the control sequences of terminals. A carriage return becomes a newline.
func printed(s string) string {
	s = strings.ReplaceAll(colouring.ReplaceAllString(s, ""), "\r\n", "\n")
	return plain(strings.ReplaceAll(s, "\r", "\n"))
}

// isDirection reports whether r is a control character of Unicode that changes the direction of text.
func isDirection(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// figure formats a number with about four digits.
func figure(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1e9:
		return fmt.Sprintf("%.3g G", x/1e9)
	case a >= 1e6:
		return fmt.Sprintf("%.3g M", x/1e6)
	case a >= 1e4:
		return fmt.Sprintf("%.3g k", x/1e3)
	case a >= 100:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
	}
	return fmt.Sprintf("%.4g", x)
}

// duration formats seconds in the two largest units.
func duration(s float64) string {
	switch {
	case s < 60:
		return figures.Seconds(s)
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
	case s < 48*3600:
		return fmt.Sprintf("%d h %02d min", int(s)/3600, int(s)/60%60)
	}
	return fmt.Sprintf("%d d %02d h", int(s/86400), int(s/3600)%24)
}

package watch

import (
	"fmt"
	"slices"
	"strings"
)

// A ScreenLine is a line of a screen. Its text has no control characters.
type ScreenLine struct {
	Text  string
	Style Style
}

// A Style is the appearance of a ScreenLine on a terminal.
type Style int

// The styles.
const (
	Plain Style = iota
	Strong
	Alarm
	Faint
)

// Render shows s in at most height lines of at most width columns. In a small window it leaves out the less important
// parts.
func Render(s State, width, height int) []ScreenLine {
	if width < leastWidth || height < leastHeight {
		return small(s, width, height)
	}
	parts := []part{
		{header(&s, width), 0},
		{training(&s, width), 1},
		{phases(&s, width), 3},
		{ranks(&s, width, rankLines), ranksLevel},
		{append(queues(&s, width), lastMove(&s, width)...), 5},
		{logs(&s, width, height), 2},
		{footer(&s, width), 6},
	}
	for level := 7; level > 0 && total(parts) > height; level-- {
		for i := range parts {
			if parts[i].level == level {
				parts[i].lines = nil
			}
		}
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return len(p.lines) == 0 })
	spare := height - total(parts) - (len(parts) - 1) // with an empty line between parts
	if i := slices.IndexFunc(parts, func(p part) bool { return p.level == ranksLevel }); i >= 0 && spare > 0 {
		parts[i].lines = ranks(&s, width, rankLines+spare)
	}
	return trimmed(join(parts, height), width)
}

// The minimum size of a window that shows parts, and the number of lines for ranks in a window with little room.
const (
	leastWidth, leastHeight = 40, 6
	rankLines               = 4
	ranksLevel              = 4 // see part
)

// A part is a section of the screen. If the window is too small, the parts with the highest level are left out first. A
// part of level 0 stays.
type part struct {
	lines []ScreenLine
	level int
}

func total(parts []part) (n int) {
	for _, p := range parts {
		n += len(p.lines)
	}
	return n
}

// join returns the lines of parts. Empty lines separate the parts if there is room. The last part is at the bottom. No
// part may be empty.
func join(parts []part, height int) (lines []ScreenLine) {
	room := height - total(parts)
	for i, p := range parts {
		if i > 0 && room > 0 {
			lines, room = append(lines, ScreenLine{}), room-1
		}
		if i == len(parts)-1 {
			lines = append(lines, make([]ScreenLine, max(room, 0))...)
		}
		lines = append(lines, p.lines...)
	}
	return lines[:min(len(lines), height)]
}

// small returns the lines of a window that is too small for the parts.
func small(s State, width, height int) (lines []ScreenLine) {
	if width <= 0 || height <= 0 {
		return nil
	}
	text := Summary(s)
	if height > 1 {
		lines = []ScreenLine{{cut(text, width), Plain}}
		text = fmt.Sprintf("window %dx%d, expected %dx%d", width, height, leastWidth, leastHeight)
	}
	return append(lines, ScreenLine{cut(text, width), Faint})
}

// trimmed cuts lines to width, and removes spaces at their ends.
func trimmed(lines []ScreenLine, width int) []ScreenLine {
	for i := range lines {
		lines[i].Text = strings.TrimRight(cut(clean(lines[i].Text), width), " ")
	}
	return lines
}

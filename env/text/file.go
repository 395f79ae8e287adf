package text

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"unicode/utf8"

	"github.com/rlinf/rlinf/internal/tables"
)

// eachRecord calls handle for each record of a file, with the number of the record's first line.
// The file contains JSON lines or a JSON list, and may be compressed with gzip. Errors name the
// file and the line. A Parquet file has a record in each row: then the number is that of the row.
func eachRecord(path string, handle func(line int, record []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReader(file)
	if begins(in, parquet) {
		table, err := tables.Open(path)
		if err != nil {
			return err
		}
		defer table.Close()
		return table.EachRecord(func(string) bool { return true }, handle)
	}
	if begins(in, "\x1f\x8b") {
		unzip, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("%s: gzip: %w", path, err)
		}
		in = bufio.NewReader(unzip)
	}
	for _, f := range foreign {
		if begins(in, f.begin) {
			return fmt.Errorf("%s is %s: expected lines of JSON or a JSON list, in UTF-8, plain or with gzip, or "+
				"Parquet", path, f.name)
		}
	}
	if begins(in, byteOrderMark) {
		_, _ = in.Discard(len(byteOrderMark)) // these bytes are in the buffer
	}
	each := func(line int, record []byte) error {
		err := checkText(record)
		if err == nil {
			err = handle(line, record)
		}
		if err != nil {
			err = fmt.Errorf("%s:%d: %w", path, line, err)
		}
		return err
	}
	line, err := skipSpace(in)
	if err == nil && begins(in, "[") {
		return eachItem(path, in, line, each)
	}
	return eachLine(path, in, line, each)
}

// byteOrderMark is at the start of files from some editors.
const byteOrderMark = "\ufeff"

// foreign lists unsupported formats with their first bytes.
var foreign = []struct{ begin, name string }{
	{parquet, "Parquet within gzip"}, {"PARE", "Parquet with encryption"},
	{"ARROW1", "Arrow"}, {"\xff\xff\xff\xff", "Arrow"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd"}, {"BZh", "compressed with bzip2"},
	{"\xfd7zXZ", "compressed with xz"}, {"PK\x03\x04", "a zip archive"},
	{"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"},
}

// parquet is the text at the beginning of every Parquet file that is not encrypted.
const parquet = "PAR1"

func begins(in *bufio.Reader, prefix string) bool {
	head, _ := in.Peek(len(prefix))
	return string(head) == prefix
}

// skipSpace skips white space, and returns the number of the line of the next character.
func skipSpace(in *bufio.Reader) (line int, err error) {
	for line = 1; ; {
		c, err := in.ReadByte()
		switch {
		case err != nil:
			return line, err
		case c == '\n':
			line++
		case c != ' ' && c != '\t' && c != '\r':
			return line, in.UnreadByte()
		}
	}
}

func eachLine(path string, in *bufio.Reader, number int, do func(line int, record []byte) error) error {
	for ; ; number++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := do(number, line); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// eachItem calls handle for each item of a JSON list that begins in the given line.
func eachItem(path string, in *bufio.Reader, line int, handle func(line int, record []byte) error) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	d, seen := json.NewDecoder(bytes.NewReader(text)), 0
	lineOf := func(at int64) int {
		line += bytes.Count(text[seen:at], []byte("\n"))
		seen = int(at)
		return line
	}
	fail := func(err error) error {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%s:%d: expected a JSON list: %w", path, lineOf(max(d.InputOffset(), int64(seen))), err)
	}
	if _, err := d.Token(); err != nil {
		return fail(err)
	}
	for d.More() {
		at := d.InputOffset()
		at += int64(len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n,")))
		number := lineOf(at)
		var record json.RawMessage
		if err := d.Decode(&record); err != nil {
			return fail(err)
		}
		if err := handle(number, record); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fail(err)
	}
	if rest := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		number := lineOf(int64(len(text) - len(rest)))
		return fmt.Errorf("%s:%d: expected the end of a JSON list: %.20q", path, number, rest)
	}
	return nil
}

// checkText returns an error if the JSON has bytes that are not UTF-8 or an escaped lone surrogate,
// because decoding would replace these by U+FFFD.
func checkText(record []byte) error {
	if !utf8.Valid(record) {
		at := 0
		for {
			r, size := utf8.DecodeRune(record[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return fmt.Errorf("byte %d is 0x%02x: expected UTF-8", at+1, record[at])
	}
	for rest := record; ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 || at+1 == len(rest) {
			return nil
		}
		rest = rest[at:]
		unit := surrogate(rest)
		switch {
		case unit == 0:
			rest = rest[2:]
		case unit < 0xdc00 && surrogate(rest[6:]) >= 0xdc00:
			rest = rest[12:]
		default:
			return fmt.Errorf(`%s is half a character (a lone surrogate): expected both halves`, rest[:6])
		}
	}
}

// surrogate returns the surrogate at the start of s, written as an escape such as \ud83d. It
// returns 0 if there is none.
func surrogate(s []byte) uint64 {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil || unit < 0xd800 || unit > 0xdfff {
		return 0
	}
	return unit
}

package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// FromJSON converts a JSON text to a value for templates. Objects keep the order of their keys. An empty text is None.
func FromJSON(text []byte) (any, error) {
	if len(text) == 0 {
		return nil, nil
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("%.40s: not JSON", text)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := nextJSON(d)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

func nextJSON(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			l := List{}
			for d.More() {
				item, err := nextJSON(d)
				if err != nil {
					return nil, err
				}
				l = append(l, item)
			}
			_, err = d.Token()
			return l, err
		}
		return nextObject(d)
	case json.Number:
		if n, err := strconv.Atoi(token.String()); err == nil {
			return n, nil
		}
		if !strings.ContainsAny(token.String(), ".eE") {
			return BigNumber(token), nil
		}
		return token.Float64()
	}
	return token, nil
}

// nextObject reads an object after its opening brace.
func nextObject(d *json.Decoder) (any, error) {
	dict := NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := nextJSON(d)
		if err != nil {
			return nil, err
		}
		dict.Set(key, value)
	}
	_, err := d.Token()
	return dict, err
}

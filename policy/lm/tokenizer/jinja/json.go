package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// FromJSON converts a JSON text to a value for templates. Objects keep the order of their keys. An empty text is None.
func FromJSON(text []byte) (v any, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("%.40s: not JSON", text)
	}
	defer recoverAs(&err, errors.New)
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return nextJSON(d), nil
}

// nextJSON reads the next value of a text that is valid JSON.
func nextJSON(d *json.Decoder) (v any) {
	token, err := d.Token()
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			dict := NewMapping()
			for d.More() {
				key := nextJSON(d)
				dict.Set(key, nextJSON(d))
			}
			v = dict
		} else {
			list := List{}
			for d.More() {
				list = append(list, nextJSON(d))
			}
			v = list
		}
		_, err = d.Token()
	case json.Number:
		if n, err := strconv.Atoi(token.String()); err == nil {
			return n
		}
		if !strings.ContainsAny(token.String(), ".eE") {
			return BigNumber(token)
		}
		v, err = token.Float64()
	default:
		v = token
	}
	if err != nil {
		panic(err)
	}
	return v
}

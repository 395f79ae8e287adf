// Package jinja runs templates in the Jinja language, as Jinja2 3.1.6 does with the settings of Hugging Face's
// apply_chat_template: trim_blocks, lstrip_blocks, no autoescape, the sandbox, loop controls, and the tag generation.
//
//	t, err := jinja.Parse("{% for m in messages %}{{ m.role }}{% endfor %}")
//	messages, err := jinja.FromJSON([]byte(`[{"role": "user"}]`))
//	text, err := t.Render(map[string]any{"messages": messages}) // user
//
// Values have the types of Python: None is nil, and texts, truth values, integers of 64 bits and numbers are Go's
// string, bool, int and float64. The functions in values are of the type Function. Templates cannot read files, change
// lists or mappings, or get the time.
//
// The tags block, extends, include, import, from and autoescape, the filters pprint, random, urlize and wordwrap, and
// the functions cycler, joiner and lipsum are not supported. A template that uses them is an error that names them.
package jinja

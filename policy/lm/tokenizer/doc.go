// Package tokenizer turns text into token ids and back, as tokenizer.json in a model's folder
// describes.
//
//	k, err := tokenizer.Load(dir)
//	e := k.NewEncoder()                   // one for each goroutine
//	ids = e.EncodeSequence(ids[:0], text) // with the token that begins a sequence
//	text = k.Decode(ids)
//
//	s := k.NewStream(true)                // while ids are generated
//	fmt.Print(s.Next(id))                 // only whole characters
//	fmt.Print(s.End())
//
//	c, err := k.ChatTemplate("")          // of the folder, or a built-in format
//	text, err = c.Render(tokenizer.Chat{Messages: messages, GenerationPrompt: true})
//	ids = e.Encode(ids[:0], text)         // templates write special tokens themselves
//
// The package supports byte pair encoding in two forms. The byte-level form has the patterns of GPT-2, Qwen2 and Llama
// 3. SentencePiece's form, as in Llama 2, has ▁ for spaces and tokens for bytes. If a file has another setting, Load
// returns an error that names key and value.
//
// A byte-level tokenizer with a token for each byte preserves text: if x is valid UTF-8, Decode(Encode(x)) is x. This
// holds only without a normalizer and without added tokens that include white space (LStrip, RStrip). With the
// normalizer NFC, as in Qwen, the result is the normal form of x.
//
// Train makes a new byte-level tokenizer from texts. Programs should keep ids, and decode them only for people and
// verifiers, because encoding decoded text again can give other ids.
package tokenizer

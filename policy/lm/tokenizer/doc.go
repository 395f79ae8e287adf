// Package tokenizer turns text into token ids and back, as the tokenizer.json of a model's folder
// says.
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
// It knows byte pair encoding in two forms: byte-level, with the patterns of GPT-2, Qwen2 and Llama
// 3, and SentencePiece's, with ▁ for blanks and tokens for bytes, as Llama 2 has. What a file asks
// for beyond that is refused by key and value when it is loaded.
//
// A byte-level tokenizer without a normalizer and with a token for each byte gives every text back:
// Decode(Encode(x)) is x, if x is valid UTF-8 and no added token takes white space (LStrip,
// RStrip). With the normalizer NFC, which Qwen has, it is the normal form of x.
//
// Train makes a new byte-level tokenizer from texts. Programs keep ids, and decode them for people
// and verifiers only: encoding a decoded text again may give other ids.
package tokenizer

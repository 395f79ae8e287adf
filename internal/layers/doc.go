// Package layers tests the import rules of the tree. It holds only tests. docs/architecture.md draws the rooms of the
// tree and their order.
//
// The table in the test has a line for each part of the tree, in the same order. A new package under
// env or internal needs no line. A new part of the tree, or a new dependency on another module, needs
// a line. The test reads every Go file, regardless of build tags.
//
// Other tests here read the tree as text. They limit the length of lines and files, limit sentences
// of pages and comments to 40 words, and check what pages name: links, Go names and files.
package layers

// Package layers has no code to use: its test holds the tree against the rule of who may import
// whom.
//
//	main → roles → { algo → policy → policy/nn, env, collectives → spmd } → tensor
//
// and below roles
//
//	cli → { session, trainer }; session → task → loop; trainer → embodied/play
//	{ embodied, language } → task; { embodied, language } → { weights, loop } → member → job → config
//
// The table in the test has a line for each part of the tree. A new package under env or internal
// needs no line; a new part of the tree does, and so does a new dependency on another module. The
// test reads every Go file, whatever build tags it needs.
//
// Other tests here read the tree as text, too. Lines of code and files have a length, sentences of
// pages and comments have at most 40 words, and links lead somewhere.
package layers

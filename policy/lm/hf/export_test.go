package hf

// FileName is fileName, for tests.
var FileName = fileName

// Package video answers: how do pictures of environments become files? A Sheet shows several pictures side by side, and
// WritePNG writes it. A Film is a sequence of sheets as an animated PNG, GIF, MP4 or WebM file.
//
// Pictures are RGB bytes of the shape [height, width, 3], with the top row first.
package video

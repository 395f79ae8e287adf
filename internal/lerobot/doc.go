// Package lerobot reads and writes datasets of LeRobot, which are folders (github.com/huggingface/lerobot), in versions
// 2.1 and 3.0:
//
//	f, err := lerobot.Open("pusht")
//	err = f.Frames([]string{"observation.state", "action"}, func(x *lerobot.Frame) error { ... })
//
// A folder may be larger than memory. Errors name file, row and column.
package lerobot

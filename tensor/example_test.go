package tensor_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/rlinf/rlinf/tensor"
)

// A Dict holds named tensors in the order in which they were set. Rows are views.
func ExampleDict() {
	var d tensor.Dict
	d.Set("observation.state", tensor.FromF32([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
	d.Set("reward", tensor.FromF32([]float32{0.5, 1, 1.5}, 3))
	rows := d.Slice(1, 3)
	rows.Must("reward").F32()[0] = 10
	fmt.Println(d.Must("reward").F32(), d.Sub("observation").Must("state").Shape())
	// Output: [0.5 10 1.5] [3 2]
}

// WriteSafetensors writes the format of Hugging Face, which other programs read.
func ExampleWriteSafetensors() {
	var d tensor.Dict
	d.Set("actor.head.bias", tensor.FromF32([]float32{0.25, -1}, 2))
	var file bytes.Buffer
	if err := tensor.WriteSafetensors(&file, d, map[string]string{"framework": "rlinf"}); err != nil {
		log.Fatal(err)
	}
	read, metadata, err := tensor.ReadSafetensors(file.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(read.Must("actor.head.bias").F32(), metadata["framework"])
	// Output: [0.25 -1] rlinf
}

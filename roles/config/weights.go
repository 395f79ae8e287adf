package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/tensor"
)

// WeightSyncerConfig is the section weight_syncer. It configures how the actors' parameters are sent to rollout workers
// on nodes without an actor. On an actor's node they are not sent: see the package documentation of collectives.
type WeightSyncerConfig struct {
	// Type is bucket (default) or patch. bucket sends all parameters every time. patch sends only the changes of a
	// tensor if they are smaller than the tensor.
	Type string `yaml:"type"`
	// Bucket configures how all parameters are sent, for both types.
	Bucket WeightBucketConfig `yaml:"bucket"`
	// Patch configures how changes are sent.
	Patch WeightPatchConfig `yaml:"patch"`
}

// WeightBucketConfig is the section weight_syncer.bucket.
type WeightBucketConfig struct {
	// BucketSize is the number of bytes sent at once, in whole tensors. It is a number, or a number with KB, MB or GB
	// (powers of 1024). Default 512MB.
	BucketSize Bytes `yaml:"bucket_size"`
	// BucketDType is the format in which parameters are sent. null (default) or fp32 sends them unchanged. bf16 rounds
	// them, and halves the bytes. Rollouts then use rounded parameters, in every placement. Statistics of observations
	// are always sent unchanged.
	BucketDType string `yaml:"bucket_dtype"`
}

// WeightPatchConfig is the section weight_syncer.patch.
type WeightPatchConfig struct {
	// DeltaEncoding sends indices of changed elements as differences. Default true.
	DeltaEncoding bool `yaml:"delta_encoding"`
	// InitSync configures how the first version of the weights is sent.
	InitSync WeightInitSyncConfig `yaml:"init_sync"`
}

// WeightInitSyncConfig is the section weight_syncer.patch.init_sync.
type WeightInitSyncConfig struct {
	// Enabled sends all parameters of the first version. false sends the difference from the initial parameters of
	// every worker, which actor.seed determines. Default true.
	Enabled bool `yaml:"enabled"`
	// Prefixes selects the tensors that are sent completely, by the beginnings of their names. null, the default,
	// selects all tensors.
	Prefixes config.Words `yaml:"prefixes"`
	// BucketSize replaces weight_syncer.bucket.bucket_size for the first version. Default 128MB.
	BucketSize Bytes `yaml:"bucket_size"`
}

// Values of WeightSyncerConfig.Type.
const (
	WeightSyncBucket = "bucket"
	WeightSyncPatch  = "patch"
)

func defaultWeightSyncer() WeightSyncerConfig {
	return WeightSyncerConfig{
		Type:   WeightSyncBucket,
		Bucket: WeightBucketConfig{BucketSize: 512 << 20},
		Patch: WeightPatchConfig{DeltaEncoding: true, InitSync: WeightInitSyncConfig{Enabled: true,
			BucketSize: 128 << 20}},
	}
}

func (c *WeightSyncerConfig) checkFields(want func(ok bool, key string, value any, what string)) {
	want(c.Type == WeightSyncBucket || c.Type == WeightSyncPatch, "type", c.Type, "bucket or patch")
	want(c.Bucket.BucketSize > 0, "bucket.bucket_size", c.Bucket.BucketSize, "a number of bytes > 0, as 512MB")
	want(c.Bucket.Wire() != 0, "bucket.bucket_dtype", c.Bucket.BucketDType, "null, fp32 or bf16")
	want(c.Patch.InitSync.BucketSize > 0, "patch.init_sync.bucket_size", c.Patch.InitSync.BucketSize,
		"a number of bytes > 0, as 128MB")
}

// Wire returns the format in which parameters are sent, or 0 if BucketDType is unknown.
func (c *WeightBucketConfig) Wire() tensor.DType {
	switch strings.TrimPrefix(c.BucketDType, "torch.") {
	case "", "32", "fp32", "float32":
		return tensor.F32
	case "bf16", "bfloat16":
		return tensor.BF16
	}
	return 0
}

// Bytes is a size in memory. In YAML it is a number, or a number with KB, MB or GB, which are powers of 1024.
type Bytes int

// UnmarshalText reads a number with or without a unit.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), 1
	for i, suffix := range []string{"KB", "MB", "GB"} {
		if n, ok := strings.CutSuffix(strings.ToUpper(number), suffix); ok {
			number, unit = strings.TrimSpace(n), 1<<(10*(i+1))
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > math.MaxInt/unit {
		return fmt.Errorf("expected bytes, as 536870912 or 512MB")
	}
	*b = Bytes(n * unit)
	return nil
}

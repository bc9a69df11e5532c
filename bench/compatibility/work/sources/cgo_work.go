// SPDX-License-Identifier: Apache-2.0
package main

/*
#include <stdlib.h>
#include <string.h>
static long churn(long n) {
	char *keep[64] = {0};
	long sum = 0;
	for (long i = 0; i < n; i++) {
		free(keep[i % 64]);
		keep[i % 64] = calloc(1, (size_t)(i % 700 + 1));
		sum += i % 700;
	}
	for (int i = 0; i < 64; i++) free(keep[i]);
	return sum;
}
*/
import "C"

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
)

func work(seed int) string {
	rows := map[string][]int{}
	for i := 0; i < 100000; i++ {
		key := fmt.Sprint("k", i*seed%5003)
		rows[key] = append(rows[key], i)
	}
	text, _ := json.Marshal(rows)
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

func main() {
	var all sync.WaitGroup
	out := make([]string, 4)
	for i := range out {
		all.Add(1)
		go func() { defer all.Done(); out[i] = work(i + 3) }()
	}
	all.Wait()
	fmt.Println(out)

	var calls sync.WaitGroup
	sums := make([]int64, 4)
	for i := range sums {
		calls.Add(1)
		go func() { defer calls.Done(); sums[i] = int64(C.churn(200000)) }()
	}
	calls.Wait()
	fmt.Println(sums)

}

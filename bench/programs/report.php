<?php
// SPDX-License-Identifier: Apache-2.0
// Rows into groups and back through JSON, then text: PHP takes chunks of two megabytes from the system, and malloc serves the rest.
$sizes = [];
for ($round = 0; $round < 4; $round++) {
    $rows = [];
    for ($i = 0; $i < 60000; $i++) $rows[] = ['id' => $i, 'name' => 'n' . ($i * 7919 % 1013), 'value' => $i / 3];
    $groups = [];
    foreach ($rows as $row) $groups[$row['name']][] = $row;
    ksort($groups);
    $text = json_encode(json_decode(json_encode($groups), true));
    $sizes[] = md5($text) . ' ' . preg_match_all('/"n(\d+)5"/', $text) . ' ' . strlen(serialize(array_slice($groups, 0, 200)));
}
echo implode("\n", $sizes), "\n";

# Tests a notification larger than the store's limit: it enters the error log, and all other notifications are
# delivered.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, a text, b text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't1', 'u2');
    SELECT clairon.watch('t', 'TEAM', 'a', name => 'team', columns => '{id,b}', ack_required => true);
    SELECT clairon.watch('t', 'ALL', name => 'all', columns => '{id,b}')});
my $store  = Clairon::Test::store(options => [ '--proto-max-bulk-len', 1024 * 1024 ]);
my $relay  = Clairon::Test::relay($pg, $store);
my $client = $relay->client('u1');

# Escaping makes the JSON longer than the decoder's limit for a value.
$pg->safe_psql('postgres', q{
    INSERT INTO t VALUES (1, 't1', 'short');
    INSERT INTO t VALUES (2, 't1', repeat(E'\x01', 900000));
    INSERT INTO t VALUES (3, 't1', 'short')});
$client->run_until('later rows arrive', sub { grep({ $_->{payload}{after}{id} == 3 } $client->notifications) == 2 });
is_deeply([ map { $_->{payload}{after}{id} } $client->notifications ], [ 1, 1, 3, 3 ], 'the other notifications are delivered');
my @rejected = $store->errors;
is_deeply([ sort map { join ' ', sort @{ JSON::decode_json($_->{users}) } } @rejected ], [ '', 'u1 u2' ],
    'the error log contains the notification once per rule, with its users');
is_deeply([ map { "@$_{qw(reason attempts)}" } @rejected ], [ ('rejected 0') x 2 ], 'the error log entries have the reason `rejected` and no attempts');
is($store->pending, 2, 'no rejected notification is pending');
is($relay->metric('clairon_errors_total{reason="rejected"}'), 2, 'a metric counts rejected notifications');
$relay->wait_for_log(qr/exceeds the store's proto-max-bulk-len/);

my ($code, $out) = $relay->run(qw(errors list));
is($code, 0, 'errors list lists the rejected notifications');
is(scalar(() = $out =~ /\brejected\b/g), 2, 'errors list prints both rejected notifications');

# Rejected entries do not block the redrive of other entries.
my $exhausted = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, retry_limit => 0)});
wait_until('the notification is due', sub { $store->execute('ZSCORE', $store->of($exhausted, 'due'), "$exhausted:u1") });
$store->execute('ZADD', $store->of($exhausted, 'due'), 1, "$exhausted:u1");
wait_until('the notification is exhausted', sub { $store->error_count == 3 });
($code, $out) = $relay->run(qw(errors redrive --limit 1));
is($code, 0, 'redrive exits with 0');
like($out, qr/^redrove 1 entry for 1 user\nskipped 2 entries/, 'redrive skips the rejected notifications');
is_deeply([ map { $_->{reason} } $store->errors ], [ ('rejected') x 2 ], 'the skipped notifications stay in the error log');

wait_confirmed($pg);
pass('the slot advances');
done_testing();

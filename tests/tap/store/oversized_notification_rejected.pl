# A notification that is longer than the store takes: is it in the error log, and does all else go on?
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

# Its bytes are escaped, so the line is longer than what the decoder lets a value be.
$pg->safe_psql('postgres', q{
    INSERT INTO t VALUES (1, 't1', 'short');
    INSERT INTO t VALUES (2, 't1', repeat(E'\x01', 900000));
    INSERT INTO t VALUES (3, 't1', 'short')});
$client->run_until('what comes after it', sub { grep({ $_->{payload}{after}{id} == 3 } $client->notifications) == 2 });
is_deeply([ map { $_->{payload}{after}{id} } $client->notifications ], [ 1, 1, 3, 3 ], 'the others are there');
my @rejected = $store->entries('clairon:errors');
is_deeply([ sort map { join ' ', sort @{ JSON::decode_json($_->{users}) } } @rejected ], [ '', 'u1 u2' ],
    'it is in the error log once for each rule, with who was to get it');
is_deeply([ map { "@$_{qw(reason attempts)}" } @rejected ], [ ('rejected 0') x 2 ], 'as rejected');
is($store->pending, 2, 'nobody is waited for');
is($relay->metric('clairon_errors_total{reason="rejected"}'), 2, 'and counted');
$relay->wait_for_log(qr/exceeds the store's proto-max-bulk-len/);

my ($code, $out) = $relay->run(qw(errors list));
is($code, 0, 'it can be listed');
is(scalar(() = $out =~ /\brejected\b/g), 2, 'both');

# What cannot be sent anew is not in the way of what can.
my $given_up = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, retry_limit => 0)});
wait_until('it is waited for', sub { $store->execute('ZSCORE', 'clairon:due', "$given_up:u1") });
$store->execute('ZADD', 'clairon:due', 1, "$given_up:u1");
wait_until('it is given up', sub { $store->entries('clairon:errors') == 3 });
($code, $out) = $relay->run(qw(errors redrive --limit 1));
is($code, 0, 'one is redriven');
like($out, qr/^redrove 1 entry for 1 user\nleft 2 entries/, 'the one behind those that cannot be');
is_deeply([ map { $_->{reason} } $store->entries('clairon:errors') ], [ ('rejected') x 2 ], 'which stay');

wait_confirmed($pg);
pass('and PostgreSQL may let it go');
done_testing();

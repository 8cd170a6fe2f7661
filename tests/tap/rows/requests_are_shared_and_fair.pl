# Tests the queue of requests for rows: users share the query of a rule for ALL, users are served round-robin, and
# excess requests are rejected.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::StubRows;
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $stub  = Clairon::Test::StubRows->new($pg);
my $relay = Clairon::Test::relay($pg, $store,
    conf => { 'rows.connections' => 1, 'rows.queue' => 20, 'rows.timeout' => '60s' });
my $next = 10;

sub request { my ($client, %fields) = @_; $client->send({ t => 'rows', r => ++$next, %fields }); return $next }
sub reply { my ($client, $r) = @_; return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }
sub waiting { my ($count) = @_; return wait_until("$count requests wait", sub { $relay->metric('clairon_rows_waiting_requests') == $count }) }

# Occupies the only connection until release().
sub occupy
{
    my ($client) = @_;
    $stub->set('slow', delay => 50);
    request($client, source => 'slow');
    wait_until('the connection is busy', sub { 1 == $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) });
    return;
}

sub release
{
    $stub->set('slow', delay => 0);
    $pg->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'});
    return;
}

my $busy = $relay->client('busy');
$stub->set('all', audience => 'ALL');
$stub->set('grp', audience => 'STRUCTURE');
$stub->set('mine', audience => 'USER');
reply($busy, request($busy, source => $_)) for qw(all grp mine);    # the relay has now cached the audiences

# Users share the queries of rules for ALL only.
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'm2'), ('ROLE', 'admin', 'm2')});
my %clients = (
    m1 => $relay->client('m1', groups => { STRUCTURE => ['s1'] }),
    m2 => $relay->client('m2'),
    m3 => $relay->client('m3', groups => { STRUCTURE => ['s3'] }));
occupy($busy);
my %requests;
for my $source (qw(all grp mine))
{
    $requests{$_}{$source} = request($clients{$_}, source => $source) for sort keys %clients;
}
waiting(9);
release();
my %rows;
for my $user (keys %clients)
{
    $rows{$user}{$_} = reply($clients{$user}, $requests{$user}{$_})->{rows}[0]{user} for qw(all grp mine);
}
my $calls = () = $stub->calls('all');
is($calls, 2, 'users share the query of a rule for ALL');
is($rows{m1}{all}, $rows{m3}{all}, 'users receive the same rows of a rule for ALL');
$calls = () = $stub->calls('grp');
is($calls, 4, 'users of a rule for groups share no query');
is_deeply([ map { $rows{$_}{grp} } qw(m1 m2 m3) ], [qw(m1 m2 m3)], 'users of a rule for groups each receive their rows');
is_deeply([ map { $rows{$_}{mine} } qw(m1 m2 m3) ], [qw(m1 m2 m3)], 'users of a rule for USER share no query');

# Users share the queries of a rule for ALL only if all their conditions are equal.
my @conditions = ({}, { where => { a => 1 } }, { where => { a => '1' } }, { where => { a => 1 }, limit => 5 }, { order => ['a'] },
    { order => ['a'], after => [1] });
my $before = () = $stub->calls('all');
occupy($busy);
my @replies = map { my $fields = $_; map { [ $clients{$_}, request($clients{$_}, source => 'all', %$fields) ] } qw(m1 m2 m3) } @conditions;
waiting(scalar @replies);
release();
is((grep { reply(@$_)->{t} eq 'rows' } @replies), scalar @replies, 'each request with conditions receives its rows');
$calls = () = $stub->calls('all');
is($calls - $before, scalar @conditions, 'users share the query of a rule for ALL only if all their conditions are equal');

# The audience of a rule changes after the relay has read it.
occupy($busy);
$requests{$_}{all} = request($clients{$_}, source => 'all') for qw(m1 m3);
waiting(2);
$stub->set('all', audience => 'USER');
release();
is(reply($clients{$_}, $requests{$_}{all})->{rows}[0]{user}, $_, 'rows of a rule whose audience changed to USER are not shared') for qw(m1 m3);

# Users are served round-robin.
$stub->set($_) for map { "t$_" } 1 .. 10;
occupy($busy);
my @many = map { request($clients{m1}, source => "t$_") } 1 .. 10;
waiting(10);
my $one = request($clients{m2}, source => 't1');
waiting(11);
release();
reply($clients{m2}, $one);
reply($clients{m1}, $many[-1]);
my @log = slurp_file($pg->logfile) =~ /LOG:  live_rows: t\d+ (\w+)/g;
my ($position) = grep { $log[$_] eq 'm2' } 0 .. $#log;
cmp_ok($position, '<=', 2, 'a user with one request does not wait for all requests of another user');

# Requests beyond the limits are rejected.
occupy($busy);
my @last = map { request($clients{m1}, source => "x$_") } 1 .. 17;
my $error = reply($clients{m1}, $last[-1]);
is_deeply([ @$error{qw(t code retry)} ], [ 'err', 111, JSON::true ], 'request 17 of a user is rejected');
cmp_ok($error->{after}, '>=', 1000, 'an excess request receives a delay');
my ($status, $body) = $relay->get('/v1/rows?source=t1', Authorization => 'Bearer ' . token(sub => 'm1'));
is_deeply([ $status, JSON::decode_json($body)->{code} ], [ 429, 111 ], 'an excess request over HTTP is rejected with 429');
waiting(16);
request($clients{m2}, source => "y$_") for 1 .. 4;
waiting(20);
$error = reply($clients{m3}, request($clients{m3}, source => 't1'));
is_deeply([ @$error{qw(t code retry)} ], [ 'err', 111, JSON::true ], 'a request is rejected while the queue is full');
$clients{m1}->close;
waiting(4);
pass('the requests of a client that disconnects are removed');
release();
is(reply($clients{m3}, request($clients{m3}, source => 't1'))->{t}, 'rows', 'later requests are served');

done_testing();

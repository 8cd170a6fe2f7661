# Tests that `clairon errors` lists, redrives and drops entries, that a trace contains all events, and that nacks defer
# retries.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark);
use IO::Socket::UNIX;
use JSON ();
use POSIX ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'delivery.ack_timeout' => '200ms', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '10m' });

sub notify { my ($audience, $targets, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": \"$mark\"}',"
        . join(', ', ' ack_required => true', $more || ()) . ')') }

sub clairon { return $relay->run(@_) }
sub listed { my ($code, $out, $err) = clairon('errors', 'list', '--json', @_);
    is($code, 0, "errors list @_ exits with 0") or diag $err;
    return map { JSON::decode_json($_) } split /\n/, $out }

# Waits until the deliveries to both users are reported, and then ends their ack timeouts of an hour.
sub end_timeouts
{
    my ($id) = @_;
    my ($due, @pairs) = ($store->of($id, 'due'), "$id:u1", "$id:u2");
    wait_until('both deliveries are reported', sub { !grep { ($store->execute('ZSCORE', $due, $_) // 0) < (time + 1800) * 1000 } @pairs });
    return $store->execute('ZADD', $due, map { (1, $_) } @pairs);
}

my ($one, $two) = map { $relay->client($_) } qw(u1 u2);
my $first = notify('USER', 'u1,u2', 'first', q{retry_limit => 1, ack_timeout => '1 hour'});
for my $attempts (1, 2)
{
    $_->run_until("$attempts attempts are counted", sub { of_mark($one, 'first') == $attempts && of_mark($two, 'first') == $attempts }) for $one, $two;
    end_timeouts($first);
}
my $second = notify('USER', 'u2', 'second', "retry_limit => 100, ttl => '1 hour'");
wait_until('the first notification is exhausted', sub { $store->error_count == 1 });
$store->execute('ZADD', $store->of($second, 'due'), 1, "$second:");
wait_until('the second notification has expired', sub { $store->error_count == 2 });

# `errors list` prints the entries that match its filters.
my @all = listed();
is_deeply([ map { [ @$_{qw(id reason)} ] } @all ], [ [ $first, 'exhausted' ], [ $second, 'expired' ] ],
    'errors list prints all entries of the error log, oldest first');
is_deeply([ sort @{ $all[0]{users} } ], [ 'u1', 'u2' ], 'an error log entry lists the users without an ack');
is($all[0]{attempts}, 1, 'an error log entry has the number of attempts');
is($all[0]{notification}{payload}{mark}, 'first', 'an error log entry contains the notification');
like($all[0]{at}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'an error log entry has its time');
is_deeply([ map { $_->{id} } listed('--reason', 'expired') ], [$second], '--reason selects entries by reason');
is_deeply([ map { $_->{id} } listed('--user', 'u1') ], [$first], '--user selects entries by user');
is_deeply([ map { $_->{id} } listed('--id', $second) ], [$second], '--id selects an entry by id');
is_deeply([ map { $_->{id} } listed('--limit=1') ], [$first], '--limit limits the number of entries');
is(scalar(listed('--since', $_)), 2, "--since $_ selects recent entries") for '1h', '99999999d';
my ($code, $out) = clairon('errors', 'list');
like($out, qr/^\S+Z +$first +exhausted +1 +notify +u\d, u\d$/m, 'errors list without --json prints a table');

# A redrive sends the notification to the users of the entry again.
($code, $out) = clairon('errors', 'redrive', '--id', $first);
is($out, "redrove 1 entry for 2 users\n", 'redrive reports the number of entries and users');
my ($one_before, $two_before) = (2, 2);
$_->run_until('a retry arrives', sub { of_mark($one, 'first') > 2 && of_mark($two, 'first') > 2 }) for $one, $two;
is((of_mark($one, 'first'))[2]{routing}{retry}{attempts}, 0, 'a redriven notification starts at attempt 0');
is((of_mark($one, 'first'))[2]{metadata}{id}, $first, 'a redriven notification keeps its id');
$_->ack($first) for $one, $two;
wait_until('both users have acknowledged', sub { !$store->execute('HEXISTS', $store->of($first, 'pending'), $first) });
is(scalar(listed()), 1, 'the error log entry of a redriven and acknowledged notification is deleted');
my $expiration = (of_mark($two, 'second'))[0]{metadata}{expiration};
($code, $out) = clairon('errors', 'redrive', '--all');
$two->run_until('the second notification arrives again', sub { (of_mark($two, 'second'))[-1]{metadata}{expiration} gt $expiration });
pass('a redriven notification has a new expiration');
$two->ack($second);
wait_until('the notification is acknowledged', sub { !$store->execute('HEXISTS', $store->of($second, 'pending'), $second) });

# A notification is redriven for one of two users while it is still pending for the other user; users who have
# acknowledged in the meantime do not receive it.
my $third = notify('USER', 'u1,away', 'third', q{retry_limit => 0, ack_timeout => '1 hour'});
$store->make_due($third, 'u1');
wait_until('the notification is exhausted for one user', sub { $store->error_count == 1 });
clairon('errors', 'redrive', '--user', 'u1');
is_deeply({ @{ $store->execute('HGETALL', $store->of($third, "ack:$third")) } }, { u1 => 0, away => 0 }, 'the notification is pending for both users again');
$one->run_until('the third notification arrives again', sub { of_mark($one, 'third') == 2 });
$one->ack($third);
my $away = $relay->client('away');
$away->run_until('the third notification arrives', sub { of_mark($away, 'third') });
$away->ack($third);
wait_until('the notification is complete', sub { !$store->execute('HEXISTS', $store->of($third, 'pending'), $third) });
is_deeply([ grep { /:(ack:|retries|pending|due)/ } @{ $store->execute('KEYS', '*') } ], [], 'the store has deleted all state of the notification');

# A redriven notification of an absent user is delivered in commit order with the pending notifications.
my $late = $relay->client('late');
my $old  = notify('USER', 'late', 'old', q{retry_limit => 0, ack_timeout => '1 hour'});
$late->run_until('the notification is delivered', sub { of_mark($late, 'old') });
$store->make_due($old, 'late');
wait_until('the notification is exhausted', sub { $store->error_count == 1 });
$late->close;
my $new = notify('USER', 'late', 'new', q{retry_limit => 0, ack_timeout => '1 hour'});
wait_until('the next notification is stored', sub { $store->pending == 1 });
clairon('errors', 'redrive', '--all');
$late = $relay->client('late');
$late->run_until('both notifications arrive', sub { of_mark($late, 'old') && of_mark($late, 'new') });
is(($late->notifications)[0]{metadata}{id}, $old, 'the notification that was committed first is delivered first');
$late->ack($old, $new);
wait_until('no notification is pending', sub { $store->pending == 0 });

# Drop deletes entries.
my $fourth = notify('USER', 'u1', 'fourth', 'retry_limit => 0');
wait_until('the notification is exhausted', sub { $store->error_count == 1 });
($code, $out, my $err) = clairon('errors', 'drop');
is($code, 2, 'drop requires a filter');
like($err, qr/--all/, 'the error names --all');
($code, $out) = clairon('errors', 'drop', $fourth);
is($out, "dropped 1 entry\n", 'drop reports the number of entries');
is(scalar(listed()), 0, 'the dropped entry is deleted');
is((clairon('errors', 'dance'))[0], 2, 'an unknown subcommand is rejected');
is((clairon('errors', 'list', '--limit', 'x'))[0], 2, 'an invalid limit is rejected');
like((clairon('errors', 'drop', '--reason', 'exausted'))[2], qr/exhausted, expired, rejected or undecodable/, 'an invalid reason is rejected');
like((clairon('errors', 'drop', '--since', '-1h'))[2], qr/--since must be/, 'a time in the future is rejected');
like((clairon('errors', 'drop', 'x'))[2], qr/a UUID/, 'an invalid id is rejected');

# A store connection that closes during a reply causes an error.
my $path   = Clairon::Test::scratch() . '/fake';
my $listen = IO::Socket::UNIX->new(Local => $path, Listen => 1) or die "could not listen: $!";
my $fake_store = fork // die "could not fork: $!";
if ($fake_store == 0)
{
    my $link = $listen->accept;
    my $requests = '';
    while (sysread $link, $requests, 65_536, length $requests)
    {
        while ($requests =~ /\A\*(\d+)\r\n/ && $requests =~ s/\A\*$1\r\n((?:\$\d+\r\n[^\r]*\r\n){$1})//)
        {
            my $request = $1;
            $link->shutdown(0) if $request =~ /XREVRANGE/;    # the next request receives no reply
            syswrite $link, $request =~ /SELECT/ ? "+OK\r\n" : $request =~ /SCRIPT/ ? "\$40\r\n" . 'a' x 40 . "\r\n" : $request =~ /XREVRANGE/ ? "*0\r\n" : "\$-1\r\n";
        }
    }
    POSIX::_exit(0);
}
($code, undef, $err) = do {
    local $SIG{PIPE} = 'DEFAULT';    # as in a shell; Clairon::Test::Client ignores it
    clairon('errors', 'list', "--store.url=unix://$path") };
is($code, 1, 'a store that disconnects during a reply causes an error');
# The command connects again, to the same store, which may have ended.
like($err, qr/^clairon errors: (the store does not reply: |could not connect to the store )/, 'the lost connection is reported');
waitpid $fake_store, 0;

# The output function of a value fails: the row is delivered, and the error log has an entry.
$pg->safe_psql('postgres', q{
    SET client_min_messages = error;
    CREATE TYPE odd;
    CREATE FUNCTION odd_in(cstring) RETURNS odd IMMUTABLE STRICT LANGUAGE internal AS 'oidin';
    CREATE FUNCTION odd_out(odd) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'enum_out';
    CREATE TYPE odd (input = odd_in, output = odd_out, like = oid);
    CREATE TABLE strange (id int PRIMARY KEY, owner text, o odd);
    SELECT clairon.watch('strange', 'USER', 'owner');
    INSERT INTO strange VALUES (1, 'u1', '1')});
$one->run_until('the undecodable row arrives', sub { grep { $_->{metadata}{source} eq 'strange' } $one->notifications });
my ($undecodable) = listed('--reason', 'undecodable');
is_deeply([ $undecodable->{users}, $undecodable->{notification}{payload}{undecodable} ], [ [], ['o'] ],
    'an undecodable value is logged, and the row is delivered');
($code, $out) = clairon('errors', 'redrive', '--all');
like($out, qr/^skipped 1 entry/m, 'an entry for an undecodable value cannot be redriven, because it lists no users');
clairon('errors', 'drop', '--reason', 'undecodable');

# `clairon trace` prints all events.
($code, $out) = clairon('trace', '--json', $first);
my $trace = JSON::decode_json($out);
is($trace->{notification}{payload}{mark}, 'first', 'a trace contains the notification');
my @events = map { join ' ', $_->{stage}, $_->{user} // (), $_->{attempt} // () } @{ $trace->{events} };
is_deeply([ @events[ 0, 1 ] ], [ 'committed', 'stored' ], 'the first events are commit and storage');
my %count;
$count{$_}++ for map { s/ .*//r } @events;
is_deeply(\%count, { committed => 1, stored => 1, sent => 6, retried => 4, errored => 2, acked => 2 },
    'a trace contains all events of each user') or diag join ', ', @events;
is(scalar(grep { ($_->{reason} // '') eq 'exhausted' } @{ $trace->{events} }), 2, 'the last event contains the reason');
is(join(' ', map { $_->{at} } @{ $trace->{events} }),
    join(' ', sort map { $_->{at} } @{ $trace->{events} }), 'the events are in chronological order');
($code, $out) = clairon('trace', uc $first);
like($out, qr/^\S+Z +acked +attempt 0  user u2$/m, 'trace prints a table');
my $plain = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{"mark": "plain"}')});
$one->run_until('the notification arrives', sub { of_mark($one, 'plain') });
($code, $out) = clairon('trace', '--json', $plain);
is_deeply([ map { $_->{stage} } @{ JSON::decode_json($out)->{events} } ], [ 'committed', 'stored' ],
    'a notification without ack_required has a trace');
is((clairon('trace', '01890000-0000-7000-8000-000000000000'))[0], 1, 'trace exits with 1 for an unknown id');
is((clairon('trace', 'x'))[0], 2, 'trace exits with 2 for an invalid id');

# After a nack, a retry waits for the longer of the delay and the backoff.
my $nacked = notify('USER', 'u1', 'nacked', 'retry_limit => 1000');
$one->run_until('the notification arrives', sub { of_mark($one, 'nacked') });
sub wait_s { my ($s, $us) = @{ $store->execute('TIME') };
    return (($store->execute('ZSCORE', $store->of($nacked, 'due'), "$nacked:u1") // 0) - $s * 1000 - $us / 1000) / 1000 }
$one->send({ t => 'nack', ids => [$nacked], delay => 300_000 });
wait_until('the retry is deferred', sub { wait_s() > 290 });
cmp_ok(wait_s(), '<=', 300.001, 'a nack defers the retry');
$one->send({ t => 'nack', ids => [$nacked], delay => 3_600_000 });
wait_until('the retry is deferred again', sub { wait_s() > 590 });
cmp_ok(wait_s(), '<=', 600.001, 'the cap limits the delay of a nack');
$one->send({ t => 'nack', ids => [$nacked], delay => 10 });
wait_until('the nack is processed', sub { $relay->metric('clairon_nacks_total') >= 3 });
cmp_ok(wait_s(), '>', 250, 'a later nack with a shorter delay does not shorten the wait');
like((clairon('trace', $nacked))[1], qr/ nacked +attempt \d+  user u1  retry after 300000 ms$/m, 'a trace names the time until the retry with its unit');
my $soon = notify('USER', 'u1', 'soon', '');
$one->run_until('another notification arrives', sub { of_mark($one, 'soon') });
my $showings = of_mark($one, 'soon');
$one->send({ t => 'nack', ids => [$soon], delay => 0 });
$one->run_until('a retry arrives', sub { of_mark($one, 'soon') > $showings });
pass('a nack without a delay waits for the backoff');
$one->ack($nacked);
wait_until('the notification is acknowledged', sub { !$store->execute('HEXISTS', $store->of($nacked, 'pending'), $nacked) });
$one->send({ t => 'nack', ids => [$nacked], delay => 0 });
notify('USER', 'u1', 'last', '');
$one->run_until('the last notification arrives', sub { of_mark($one, 'last') });
is($store->execute('ZSCORE', $store->of($nacked, 'due'), "$nacked:u1"), undef, 'a nack after the ack has no effect');
cmp_ok($relay->metric('clairon_nacks_total'), '>=', 4, 'nacks are counted');
is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');

done_testing();

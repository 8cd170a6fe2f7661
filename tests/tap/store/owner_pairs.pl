# Tests that the rules of one table owner can make only a limited number of users per minute acknowledge: what is over is
# denied, counted and named, lists are reloaded, and rows of other owners are not delayed.
use strict;
use warnings;

use Clairon::Test qw(amount script_text wait_until);
use Clairon::Test::Neighbour;
use Test::More;

# ---- The account, by the script alone.
my ($LIMIT, $START_MS) = (5000, 1_800_000_000_000);
my $bare = Clairon::Test::store();
my ($STREAM, $PROGRESS) = ('c:stream', 'c:progress:s');
sub run_script { my ($name, $keys, @args) = @_; return $bare->execute_bytes('EVAL', script_text($name), scalar @$keys, @$keys, @args) }
my ($epoch) = @{ run_script('hello', [$STREAM], 'c', 'e' x 16, '', '0-0', 1, 1) };
run_script('acquire', [$PROGRESS], 'one', 'ours', 1, '', 16, 'db');
$bare->execute('SADD', 'c:members:TEAM:all', map { "u$_" } 1 .. 416);
$bare->execute('SADD', 'c:members:TEAM:few', map { "u$_" } 1 .. 15);
$bare->execute('SADD', 'c:members:TEAM:many', map { "u$_" } 1 .. 5000);
my ($number, $position, $steps) = (0, '', 0);

sub route
{
    my ($owner, $commit_ms, $rule) = @_;
    my $route = "\0" x 104;
    substr $route, 7,  1, $rule ? "\x41" : "\1";    # all named rules are live
    $rule ||= 'default';
    substr $route, 40, 8, pack 'Q>', $commit_ms * 1000;
    substr $route, 80, 8, pack 'Q>', 777;
    substr $route, 88, 4, pack 'N', $owner;
    substr $route, 64, 2, pack 'n', 4;
    substr $route, 92, 2, pack 'n', length $rule;
    substr $route, 94, 1, "\2";    # with receipts
    return $route . 'TEAM' . $rule . "\0\3all";
}

# Returns the denied notifications by owner, as the feed reads them, and confirms them.
my $confirmed = '';
sub denied
{
    my $reply = run_script('count_pending', [$STREAM], 'c', 'one', $confirmed);
    my $again = run_script('count_pending', [$STREAM], 'c', 'one', $confirmed);
    return 'lost with a reply' if "@$reply[ 3, 4 ]" ne "@$again[ 3, 4 ]";
    return '' if $confirmed eq $reply->[3];
    $confirmed = $reply->[3];
    return $reply->[4];
}

# Stores a notification. Returns 'added', 'staged' or 'denied'.
sub add
{
    my ($owner, $seconds, $audience, $target, $rule) = @_;
    my @targets = ref $target ? @$target : $target;
    my ($after, $id) = ($position, sprintf '%08x-0000-8000-8000-000000000000', ++$number);
    $position = sprintf '%028x%04x', $number, 0;
    my @record = ($position, $id, route($owner, $START_MS + 1000 * $seconds, $rule // ''),
        '{"metadata":{"id":"x","source":"own.\"t","topic":"x"}}', $audience, scalar @targets, @targets);
    my @arguments = ('c', $epoch, 'one', $after, '', '', $LIMIT, '');
    my $reply = run_script('ingest', [ $STREAM, $PROGRESS ], @arguments, 'A', @record);
    my $denied = denied();
    return $reply->[1] == 1 && $denied eq '' ? 'added' : $reply->[1] == 0 && $denied eq "p$owner 1" ? 'denied' : "@$reply $denied" unless @$reply == 7;
    my ($at, $cursor) = (1, '');
    ($at, $cursor) = @{ run_script('stage', [$STREAM], 'c', $epoch, $PROGRESS, 'one', $id, $at, $cursor, 'A', $audience, @targets) } and $steps++ while $at;
    $reply = run_script('ingest', [ $STREAM, $PROGRESS ], @arguments, 'S', @record);
    return $reply->[1] == 1 && denied() eq '' ? 'staged' : "@$reply";
}
sub adds { return join ' ', map { add(@$_) } @_ }

is(adds(([ 7, 0, 'TEAM', 'all' ]) x 5), 'added added added denied denied', 'an owner may use its pairs, and the last notification may need more than the rest');
is(add(8, 0, 'TEAM', 'all'),   'added', 'another owner has its own account');
is(adds(([ 0, 0, 'TEAM', 'all' ]) x 5), 'added added added added added', 'an owner without a limit is never denied');
is(adds(([ 7, 0, 'TEAM', 'few' ]) x 5), 'added added added added added', 'small groups are not limited');
is(adds(([ 7, 0, 'USER', [ map { "u$_" } 1 .. 16 ] ]) x 3), 'added added added', 'few named users are not limited');
is(add(7, 0, 'USER', [ map { "u$_" } 1 .. 17 ]), 'denied', 'more are');
is(add(7, 2.4, 'TEAM', 'all'), 'denied', 'the account refills by its share of a minute, and the account was below 0');
is(adds(([ 7, 2.6, 'TEAM', 'all' ]) x 2), 'added denied', 'the account refills by the time of the commits');
is(adds(([ 7, 500, 'TEAM', 'all' ]) x 4), 'added added added denied', 'after minutes the account is full, and no more than full');
my $after = $position;
my @records = map { $position = sprintf '%028x%04x', $number + 1 + int($_ / 3), $_;
    ('A', $position, sprintf('%08x-0000-8000-8000-000000000001', $_), route(7, $START_MS + 501_000, ''), '{}', 'USER', 8, map { "u$_" } 1 .. 8) } 0 .. 3;
is_deeply([ run_script('ingest', [ $STREAM, $PROGRESS ], 'c', $epoch, 'one', $after, '', '', $LIMIT, '', @records)->[1], denied() ], [ 3, 'p7 1' ],
    'the notifications of a change share its free pairs');
$number += 2;
is(add(7, 499, 'TEAM', 'all'), 'denied', 'an earlier commit does not refill it');
is(adds(map { [ 7, $_, 'TEAM', 'all' ] } 300, 330), 'denied added', 'a clock that was set back does not deny for longer');
is(adds(([ 9, 0, 'TEAM', 'many' ]) x 2), 'staged denied', 'a large group is charged too, and denied before the work');
$steps = 0;
is(adds(map { [ $_, 0, 'TEAM+ROLE', [ map { "none$_+none" } 1 .. 10_000 ] ] } 10, 10), 'staged denied', 'groups without members are charged too');
cmp_ok($steps, '>=', 5, "a step looks up a limited number of groups: $steps steps for 10000 targets");
is_deeply($bare->execute('KEYS', 'c:staged:*'), [], 'no users are staged for a denied notification');
# Denials that are counted in the millisecond in which the feed has read others.
my $still = q{local real = redis
    local redis = setmetatable({call = function(name, ...)
        if name == 'TIME' then return {'1800000000', '0'} end
        return real.call(name, ...)
    end}, {__index = real})
};
my @numbers = map {
    $bare->execute('HINCRBY', 'c:denied', 'p7', 1);
    my $reply = $bare->execute_bytes('EVAL', $still . script_text('count_pending'), 1, $STREAM, 'c', 'one', $confirmed);
    is($reply->[4], 'p7 1', 'a denial is read');
    $confirmed = $reply->[3];
} 1 .. 3;
my %distinct = map { $_ => 1 } @numbers;
is(keys %distinct, 3, 'each count has a number of its own, although no millisecond has passed');
is_deeply($bare->execute('HGETALL', 'c:reloads'), [], 'rules that are not live need no reload');
is(adds(([ 9, 0, 'TEAM', 'all', 'mine' ]) x 2), 'denied denied', 'a live rule is denied');
run_script('presence', [$STREAM], 'c', 'relay', '.') for 1, 2;
is_deeply([ map { $_->[1] } @{ $bare->execute('XRANGE', 'c:control', '-', '+') } ],
    [ [ change => 'reload', source => 'own."t', rule => 'mine', xid => 777 ] ], 'its lists are reloaded once, with the next heartbeat');
$bare->execute('HSET', 'c:reloads', map { ("[\"own.t\",\"rule$_\"]", 777) } 1 .. 5000);
run_script('presence', [$STREAM], 'c', 'relay', '.');
cmp_ok($bare->execute('HLEN', 'c:reloads'), '>', 3000, 'a call of presence.lua writes a limited number of reloads');
$bare->execute('HLEN', 'c:reloads') == 0 or run_script('presence', [$STREAM], 'c', 'relay', '.') for 1 .. 9;
is($bare->execute('HLEN', 'c:reloads'), 0, 'and the next calls write the others');
$bare->stop;

# ---- A neighbour.
my ($MEMBERS, $ROWS) = (amount(40_000, 100_000), 20);
my $pg        = Clairon::Test::postgresql('main', conf => 'logical_decoding_work_mem = 64kB');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
sub sql { return $pg->safe_psql('postgres', $_[0]) }

sql("INSERT INTO clairon.member SELECT 'TEAM', 'all', 'm' || i FROM generate_series(1, $MEMBERS) i; INSERT INTO clairon.member VALUES ('TEAM', 'one', 'm1')");
$neighbour->run_as('mallory', q{
    CREATE TABLE mallory.news (id serial PRIMARY KEY, team text, body text); ALTER TABLE mallory.news REPLICA IDENTITY FULL;
    SELECT clairon.watch('mallory.news', 'TEAM', 'team', ack_required => true, live => true);
    INSERT INTO mallory.news (team) VALUES ('all')});
my $member = $relay->client('m7');
$member->send({ t => 'rows', r => 1, source => 'mallory.news' });
$member->wait_for(sub { ($_[0]{r} // 0) == 1 && !$_[0]{more} });
wait_until('the first row is pending', sub { $store->pending == 1 });
my $row = q{INSERT INTO mallory.news (team) SELECT '%s' FROM generate_series(1, %d)};
my $honest = $neighbour->worst_delay('rows to a group of one', sprintf $row, 'one', $ROWS);
$neighbour->watch_store;
my ($pending, $memory) = ($store->pending, $store->execute('INFO', 'memory') =~ /used_memory:(\d+)/);
my $attack = $neighbour->worst_delay("rows to a group of $MEMBERS", sprintf $row, 'all', $ROWS);
$neighbour->is_unnoticed('large groups that must acknowledge', $attack, $honest);
my ($longest, $words) = $neighbour->store_longest;
note "longest command: $longest ms, $words";
my $grown = (($store->execute('INFO', 'memory') =~ /used_memory:(\d+)/)[0] - $memory) / 1e6;
my $added = $store->pending - $pending;
cmp_ok($added, '<', $ROWS, "only $added of $ROWS rows became pending");
cmp_ok($grown, '<', 45, "the store has grown by $grown MB");
$member->wait_for(sub { $_[0]{t} eq 'reload' && $_[0]{source} eq 'mallory.news' });
pass('lists with denied rows are reloaded');
wait_until('the denials are reported', sub { sql(q{SELECT denied -> 0 ->> 'changes' FROM clairon.status}) });
is(sql(q{SELECT denied -> 0 ->> 'owner', denied -> 0 ->> 'account', denied -> 0 ->> 'changes' FROM clairon.status}),
    'mallory|pairs|' . ($ROWS - $added), 'clairon.status counts the denied rows by owner');
like(sql(q{SELECT hint FROM clairon.doctor() WHERE check_name = 'account of mallory'}), qr/feed\.owner_pairs/, 'doctor names the setting');
is($relay->metric('clairon_denied_total{reason="pairs"}'), $ROWS - $added, 'a metric counts them');
$relay->wait_for_log(qr/denied notifications.*owners="mallory"/);

# The account refills, so a few more rows may be added. The decoder renders a large transaction before its commit.
my $denied = $relay->metric('clairon_denied_total{reason="pairs"}');
$neighbour->run_as('mallory', q{INSERT INTO mallory.news (team, body) SELECT 'all', (SELECT string_agg(md5(i || 'x' || j), '') FROM generate_series(1, 300) j) FROM generate_series(1, 30) i});
$neighbour->delay_of_row;
wait_until('most rows of a large transaction are denied too', sub { $relay->metric('clairon_denied_total{reason="pairs"}') > $denied + 10 });
$pending = $store->pending;

sql('GRANT clairon_app TO mallory');
$neighbour->run_as('mallory', sprintf $row, 'all', 3);
wait_until('a member of clairon_app has no limit', sub { $store->pending == $pending + 3 });
done_testing();

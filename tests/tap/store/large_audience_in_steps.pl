# Tests notifications that need acknowledgements and have a large audience: no script of the store runs long, the pairs
# become visible with the stream entry, and a feed that dies between the steps leaves nothing behind.
use strict;
use warnings;

use Clairon::Test qw(amount script_text token wait_until);
use Clairon::Test::Neighbour;
use HTTP::Tiny;
use JSON ();
use Test::More;
use Time::HiRes qw(time);

my $MEMBERS = amount(30_000, 100_000);

# ---- One step adds a limited number of users, and scans a limited number of members.
my $bare = Clairon::Test::store();
my $STREAM = 'c:stream';
sub run_script { my ($name, @args) = @_; return $bare->execute('EVAL', script_text($name), 1, $STREAM, @args) }
my ($epoch) = @{ run_script('hello', 'c', 'e' x 16, '', '0-0', 1, 1) };
for my $from (0 .. 19)
{
    $bare->execute('SADD', 'c:members:TEAM:all', map { "user$_" } $from * 1000 .. $from * 1000 + 999);
    $bare->execute('SADD', 'c:members:ROLE:even', map { 'user' . 2 * $_ } $from * 1000 .. $from * 1000 + 999);
}

# Stages an audience. Returns the number of users, the number of steps, and the most users that a step added.
sub stage
{
    my ($id, $audience, @targets) = @_;
    my ($target, $cursor, $steps, $most, $before) = (1, '', 0, 0, 0);
    while ($target)
    {
        ($target, $cursor) = @{ run_script('stage', 'c', $epoch, '', '', $id, $target, $cursor, 'A', $audience, @targets) };
        my $now = $bare->execute('HLEN', "c:staged:$id");
        $most = $now - $before if $now - $before > $most;
        ($before, $steps) = ($now, $steps + 1);
    }
    return ($before - 1, $steps, $most);    # one field marks the end
}
my %audiences = (
    'a group' => [ 'TEAM', ['all'], 20_000 ],
    'two groups with common members' => [ 'TEAM', [ 'all', 'nobody', 'all' ], 20_000 ],
    'a composite audience' => [ 'TEAM+ROLE', ['all+even'], 10_000 ],
    'named users' => [ 'USER', [ map { "user$_" } 1 .. 10_000 ], 10_000 ],
    'empty groups' => [ 'TEAM', [ map { "none$_" } 1 .. 10_000 ], 0 ],
);
for my $name (sort keys %audiences)
{
    my ($audience, $targets, $wanted) = @{ $audiences{$name} };
    my ($users, $steps, $most) = stage("of $name", $audience, @$targets);
    is($users, $wanted, "$name: all users are staged");
    cmp_ok($most, '<=', 4600, "$name: a step adds a limited number of users: $most in one of $steps steps");
}
cmp_ok($bare->execute('PTTL', 'c:staged:of a group'), '>', 0, 'users that are left behind are removed');

# ---- A row to a large group.
my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store(options => [ '--slowlog-log-slower-than', 100_000, '--slowlog-max-len', 1000 ]);
$pg->safe_psql('postgres', q{
    CREATE TABLE news (id bigserial PRIMARY KEY, structure text NOT NULL, body text);
    SELECT clairon.watch('news', 'STRUCTURE', 'structure', ack_required => true);
    CREATE TABLE letters (id bigserial PRIMARY KEY, owner text NOT NULL, body text);
    SELECT clairon.watch('letters', 'USER', 'owner');});
$pg->safe_psql('postgres', "INSERT INTO clairon.member SELECT 'STRUCTURE', 's1', 'm' || i FROM generate_series(1, $MEMBERS) i");
my $relay = Clairon::Test::relay($pg, $store);
my $members = $store->shared('members:STRUCTURE:s1');
wait_until('the memberships are copied', sub { $store->execute('SCARD', $members) == $MEMBERS });
my ($member, $other) = ($relay->client('m7'), $relay->client('other'));

sub add_news { my ($body) = @_; $pg->safe_psql('postgres', "INSERT INTO news (structure, body) VALUES ('s1', '$body')"); return }
sub entry_of { my ($body) = @_; return grep { $_->{data} =~ /"body":"\Q$body\E"/ } $store->entries }

# The first notification of a store is stored by a script, later ones by a transaction.
$pg->safe_psql('postgres', q{INSERT INTO letters (owner, body) VALUES ('nobody', 'the first of the store')});
wait_until('a notification is stored', sub { $store->stored });
$store->execute('CONFIG', 'RESETSTAT');
$store->execute('SLOWLOG', 'RESET');
my $before = Clairon::Test::Neighbour::cpu_times($store->pid);
my $began = time;
# Transactions that follow during the steps.
$pg->safe_psql('postgres', join ' ', q{INSERT INTO news (structure, body) VALUES ('s1', 'first');},
    map { "INSERT INTO letters (owner, body) VALUES ('other', 'after the first'); SELECT pg_sleep(0.005);" } 1 .. 10);
$member->run_until('a member receives the notification', sub { grep { ($_->{payload}{after}{body} // '') eq 'first' } $member->notifications });
$other->run_until('the next notification arrives', sub { $other->notifications });
note sprintf '%d members: %.2f s until the next notification arrived', $MEMBERS, time - $began;
my ($entry) = entry_of('first');
my $id = $entry->{id};
is($store->execute('HLEN', $store->of($id, "ack:$id")), $MEMBERS, 'the notification is pending for each member');
is((split / /, $store->execute('HGET', $store->of($id, 'pending'), $id))[1], $MEMBERS, 'all members are counted');
is_deeply([ map { $store->execute('KEYS', "*$_*") } ':staged:', ':pending_list:m' ], [ [], [] ], 'no key per user or step remains');
my @slow = map { int($_->[2] / 1000) . ' ms: ' . substr "@{ $_->[3] }", 0, 60 } @{ $store->execute('SLOWLOG', 'GET', 100) };
# A script for all members would take longer. The time for which the store waits for a CPU does not count.
my $waited_ms = 1000 * (Clairon::Test::Neighbour::cpu_times($store->pid)->{wait} - $before->{wait});
my @scripts = grep { /: EVAL/ } @slow;
note for @slow;
ok(!(grep { /^(\d+)/ && $1 > 400 + $waited_ms } @scripts), 'no script runs long');

unlike($relay->log_text, qr/rejected a batch|could not store a batch/, 'later batches wait until the steps are complete');

# A member who was away reads the notification from the store; another user does not.
my $away = $relay->client('m8');
$away->run_until('a member who was away receives it', sub { $away->notifications });
my $stranger = $relay->client('stranger');
$pg->safe_psql('postgres', q{INSERT INTO letters (owner, body) VALUES ('stranger', 'x')});
$stranger->run_until('a notification arrives', sub { $stranger->notifications });
is(scalar($stranger->notifications), 1, 'another user does not receive it');
$_->ack($id) for $member, $away, $stranger;
wait_until('two acknowledgements are stored',
    sub { (split / /, $store->execute('HGET', $store->of($id, 'pending'), $id))[1] == $MEMBERS - 2 });
my $again = $relay->client('m8');
add_news('second');
$again->run_until('the second notification arrives', sub { grep { $_->{payload}{after}{body} eq 'second' } $again->notifications });
is(scalar($again->notifications), 1, 'an acknowledged notification is not delivered again');

# ---- A neighbour's rows, while a table owner addresses the group with several rules, and a group of five thousand.
my ($RULES, $SMALL) = (amount(10, 3), 5000);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
$neighbour->run_as('mallory', 'CREATE TABLE mallory.t (id serial PRIMARY KEY, structure text)');
$pg->safe_psql('postgres', qq{
    INSERT INTO clairon.member SELECT 'STRUCTURE', 'small', 'm' || i FROM generate_series(1, $SMALL) i;
    SELECT clairon.watch('mallory.t', 'STRUCTURE', 'structure', name => 'r' || i, ack_required => true) FROM generate_series(1, $RULES) i});
wait_until('the small group is copied', sub { $store->execute('SCARD', $store->shared('members:STRUCTURE:small')) == $SMALL });
sub row_to { my ($group) = @_; return "INSERT INTO mallory.t (structure) VALUES ('$group')" }
my $honest = $neighbour->worst_delay("a row to $SMALL users by $RULES rules", row_to('small'));
my $attack = $neighbour->worst_delay("a row to $MEMBERS users by $RULES rules", row_to('s1'));
$neighbour->is_unnoticed('a row to a large group', $attack, $honest);

# ---- A feed that dies between the steps: the next feed adds the notification once, to the members at its commit.
sub staged { return scalar @{ $store->execute('KEYS', '*:staged:*') } }
$relay->stop;
$pg->safe_psql('postgres', q{
    BEGIN; INSERT INTO news (structure, body) VALUES ('s1', 'third'); DELETE FROM clairon.member WHERE user_id = 'm1'; COMMIT;
    INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'late');});
my $late = Clairon::Test::delayed_replies($store->{socket});
$late->hold(step => $late->script('stage'));
$relay->configure('store.url' => $late->url);
$relay->start;
$late->wait_held('step');    # the next step needs this reply
$relay->kill9;
is(staged(), 1, 'a feed dies between the steps');
is_deeply([ map { $_->{id} } entry_of('third') ], [], 'nothing is visible');
$relay->configure('store.url' => $store->url);
$relay->start;
wait_until('the next feed adds the notification', sub { scalar entry_of('third') });
my @third = entry_of('third');
is(scalar(@third), 1, 'the notification is added once');
my $ack = $store->of($third[0]{id}, "ack:$third[0]{id}");
is($store->execute('HLEN', $ack), $MEMBERS, 'it is pending for the members at its commit');
is_deeply([ map { $store->execute('HEXISTS', $ack, $_) } 'm1', 'late' ], [ 1, 0 ], 'later memberships do not count');
wait_until('no steps remain', sub { !staged() });
wait_until('the later memberships are stored', sub { $store->execute('SISMEMBER', $members, 'late') });

# A notification that is published over HTTP.
my $response = HTTP::Tiny->new->post($relay->url('/v1/notifications'), {
    headers => { Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true) },
    content => '{"routing":{"audience":{"type":"STRUCTURE","targets":["s1"]},"retry":{"ack_required":true}},"payload":{"mark":"published"}}' });
is($response->{status}, 201, 'a notification is published') or diag $response->{content};
my $published = JSON::decode_json($response->{content})->{id};
is($store->execute('HLEN', $store->of($published, "ack:$published")), $MEMBERS, 'a published notification is pending for each member');

# At the expiration, all pairs end in several steps.
my @before = $store->errors;
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:");
wait_until('the notification expires', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
my @users = map { @{ JSON::decode_json($_->{users}) } } grep { $_->{id} eq $id } $store->errors;
is(scalar(@users), $MEMBERS - 2, 'the error log names each user without an ack once');
is($store->execute('EXISTS', $store->of($id, "ack:$id")), 0, 'no pair of the notification remains');
ok(!defined $store->execute('ZSCORE', $store->of($id, 'shared_pending_list'), $id), 'it is in no pending list');

done_testing();

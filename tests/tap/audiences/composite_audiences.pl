# Tests that notifications for a composite audience reach exactly the members of all parts, and stay pending until they
# acknowledge.
#
# The test first tries each way to bypass one part. A seeded run of rows, notify and API requests with changing
# memberships follows, with one shard and with four, and is compared with a simple model. CLAIRON_COMPOSITE_SEED=n
# repeats a run.
use strict;
use warnings;

use Clairon::Test qw(wait_until token of_mark amount);
use JSON ();
use Mojo::UserAgent;
use Test::More;

my $ROUNDS = $ENV{CLAIRON_COMPOSITE_ROUNDS} // amount(10, 40);
my $SEED   = $ENV{CLAIRON_COMPOSITE_SEED}   // int(rand(1_000_000));
srand $SEED;
note "seed $SEED, $ROUNDS rounds";

my $json  = JSON->new->utf8;
my $agent = Mojo::UserAgent->new;
my ($pg, $store, $relay);

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub notify { my ($audience, $targets, $mark, $more) = @_;
    return sql("SELECT clairon.notify('$audience', E'{$targets}', '{\"mark\": \"$mark\"}'" . join(', ', '', $more || ()) . ')') }
sub acks_of { my ($id) = @_; my %acks = @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) }; return join ' ', sort keys %acks }
sub publish
{
    my ($audience, $targets, $mark, $status) = @_;
    my $body = { payload => { mark => $mark }, routing => { audience => { type => $audience, targets => $targets } } };
    my $response = $agent->post($relay->url('/v1/notifications'), { Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true) }, json => $body)->result;
    is($response->code, $status, "the API returns $status for $audience @$targets") if $status;
    return $response->json;
}
my $marks = 0;
sub all_read
{
    my (@clients) = @_;
    my $mark = 'end ' . ++$marks;
    notify('USER', join(',', map { "\"$_->{user}\"" } @clients), $mark);
    $_->{client}->run_until($mark, sub { of_mark($_->{client}, $mark) }) for @clients;
    return;
}
sub has { my ($of, $mark) = @_; return scalar of_mark($of->{client}, $mark) }
sub connect_user { my ($user, %options) = @_; return { user => $user, client => $relay->client($user, %options) } }
sub member { my ($audience, $target, @users) = @_;
    sql('INSERT INTO clairon.member VALUES ' . join ', ', map { "('$audience', E'$target', '$_')" } @users); return }
sub leaves { my ($audience, $user) = @_; sql("DELETE FROM clairon.member WHERE audience = '$audience' AND user_id = '$user'"); return }
sub wait_members { my ($audience, $target, $users) = @_;
    wait_until("$users in $audience", sub { join(' ', sort @{ $store->execute('SMEMBERS', $store->shared("members:$audience:$target")) }) eq $users });
    return }

sub begin
{
    $store = Clairon::Test::store();
    $relay = Clairon::Test::relay($pg, $store,
        conf => { 'feed.slot' => 'shards' . $store->shards, 'delivery.ack_timeout' => '200ms', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '1s' });
    return;
}

sub check_one_part
{
    sql('DELETE FROM clairon.member');
    member('STRUCTURE', 's1', qw(both half_s stays));
    member('ROLE', 'admin', qw(both half_r stays));
    member('STRUCTURE', 's2', 'half_r');
    my ($both, $half_s, $half_r) = map { connect_user($_) } qw(both half_s half_r);
    my $mixed = connect_user('half_s', groups => { ROLE => ['admin'] });
    my $named = connect_user('named', groups => { 'STRUCTURE+ROLE' => ['s1+admin'], TEAM => ['x'] });
    my @all   = ($both, $half_s, $half_r, $mixed, $named);
    my $id    = notify('STRUCTURE+ROLE', 's1+admin', 'secret', 'ack_required => true, retry_limit => 1000');
    publish('STRUCTURE+ROLE', ['s1+admin'], 'from the API', 201);
    all_read(@all);
    is_deeply([ map { has($_, 'secret') ? 1 : 0 } @all ], [ 1, 0, 0, 1, 0 ], 'exactly the members of both parts, by rows and by token, receive the notification');
    is_deeply([ map { has($_, 'from the API') ? 1 : 0 } @all ], [ 1, 0, 0, 1, 0 ],
        'exactly the members of both parts receive a notification published over HTTP');
    my ($notification) = of_mark($both->{client}, 'secret');
    is_deeply($notification->{routing}{audience}, { type => 'STRUCTURE+ROLE', targets => ['s1+admin'] },
        'the notification names the parts of its audience');
    is(acks_of($id), 'both stays', 'the notification is pending for the members of both parts by rows');
    my $poll = ($relay->get('/v1/poll?wait=0', Authorization => 'Bearer ' . token(sub => 'half_r')))[1];
    unlike($poll, qr/secret/, 'a poll of a user in only one part of the audience does not return the notification');

    # Retries are sent to users who still belong to both parts.
    leaves('ROLE', 'both');
    wait_members('ROLE', 'admin', 'half_r stays');
    all_read($both, $half_r);
    my $deliveries = has($both, 'secret');
    my $staying = connect_user('stays');
    $staying->{client}->run_until('a retry arrives', sub { has($staying, 'secret') > 1 });
    all_read($both, $staying);
    is(has($both, 'secret'), $deliveries, 'a user who left one part receives no retry');
    $both->{client}->close;
    my $again = connect_user('both');
    all_read($again);
    is(has($again, 'secret'), 0, 'a user who left one part does not receive the notification at the next connect');
    $again = connect_user('both', pos => '');
    member('ROLE', 'admin', 'both');
    $again->{client}->run_until('the notification sent after the user rejoined arrives', sub { has($again, 'secret') });
    pass('a user who rejoins receives the notification');
    $_->{client}->ack($id) for $staying, $again;
    wait_until('the notification is acknowledged', sub { $store->pending == 0 });
    return;
}

sub check_deferred
{
    sql(q{DELETE FROM clairon.member});
    member('STRUCTURE', 's1', 'waits');
    member('ROLE',      'admin', 'waits');
    my $waits = connect_user('waits', win => 1);
    my $first = notify('USER', 'waits', 'first', q{ack_required => true, ack_timeout => '1 hour'});
    $waits->{client}->run_until('the first notification arrives', sub { has($waits, 'first') });
    my $held = notify('STRUCTURE+ROLE', 's1+admin', 'held', q{ack_required => true, ack_timeout => '1 hour'});
    all_read($waits);
    leaves('STRUCTURE', 'waits');
    wait_members('STRUCTURE', 's1', '');
    $waits->{client}->ack($first);
    wait_until('the first notification is acknowledged', sub { $store->pending == 1 });
    my $own = notify('USER', 'waits', 'own', q{ack_required => true, ack_timeout => '1 hour'});
    $waits->{client}->run_until('the notification addressed only to this user arrives', sub { has($waits, 'own') });
    is(has($waits, 'held'), 0, 'a queued notification is withheld after the user left one part');
    $waits->{client}->ack($own);
    wait_until('the notification is acknowledged', sub { $store->pending == 1 });
    all_read($waits);
    is(has($waits, 'held'), 0, 'the notification is withheld even after the in-flight window has a free slot');
    member('STRUCTURE', 's1', 'waits');
    $waits->{client}->run_until('the notification sent after the user rejoined arrives', sub { has($waits, 'held') });
    $waits->{client}->ack($held);
    wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
    return;
}

sub away
{
    sql(q{DELETE FROM clairon.member});
    member('STRUCTURE', 's1', 'goes');
    member('ROLE',      'admin', 'goes');
    my $leaving = connect_user('goes');
    all_read($leaving);
    my $pos = $leaving->{client}->pos;
    $leaving->{client}->close;
    notify('STRUCTURE+ROLE', 's1+admin', 'while away');
    leaves('ROLE', 'goes');
    wait_members('ROLE', 'admin', '');
    my $reconnected = connect_user('goes', pos => $pos);
    all_read($reconnected);
    is(has($reconnected, 'while away'), 0, 'a session resumes without notifications of an audience that the user left');
    return;
}

# One part has no rows in clairon.member, so the notification is pending for each recipient.
sub without_rows
{
    sql(q{DELETE FROM clairon.member});
    member('STRUCTURE', 's1', qw(open1 open2));
    my ($one, $two) = (connect_user('open1', groups => { ROLE => ['guest'] }), connect_user('open2'));
    my $id = notify('STRUCTURE+ROLE', 's1+guest', 'open', 'ack_required => true, retry_limit => 1000');
    $one->{client}->run_until('the notification arrives', sub { has($one, 'open') });
    all_read($one, $two);
    wait_until('the delivery is reported', sub { acks_of($id) eq 'open1' });
    is(has($two, 'open'), 0,
        'if one part is known only from tokens, only members of both parts receive the notification');
    is(acks_of($id), 'open1', 'the notification is pending for the members of both parts');
    $one->{client}->ack($id);
    wait_until('the notification is acknowledged', sub { ($store->execute('HGET', $store->of($id, "ack:$id"), 'open1') // 0) > 0 });
    return;
}

sub check_rejected
{
    publish('STRUCTURE+ROLE', $_, 'wrong', 400) for ['s1'], ['s1+'], ['s1+admin+x'], ["s1\\+admin"], [ 's1+admin', 's2' ];
    publish($_, ['s1+admin'], 'wrong', 400) for 'USER+ROLE', 'ROLE+ALL', 'ROLE+', 'ROLE+role name';
    publish('A+B+C+D+E', ['1+2+3+4+5'], 'wrong', 400);
    return;
}

# ---- a seeded run

my @USERS = map { "u$_" } 1 .. 6;
my %PARTS = (STRUCTURE => [ 's1', 's2', 'a+b', 'c\\d' ], ROLE => [ 'admin', 'tutor', '+' ], TEAM => [ 't1', 't2' ]);
my @KINDS = ('STRUCTURE+ROLE', 'ROLE+TEAM+STRUCTURE', 'ROLE+ROLE', 'STRUCTURE');
my (%rows, @sent, @live);

sub any_of { return $_[ rand @_ ] }
sub quoted { my ($text) = @_; return "'" . $text =~ s/'/''/gr . "'" }
sub escaped { my ($part) = @_; return $part =~ s/([+\\])/\\$1/gr }
sub random_target { my ($kind) = @_; my @kinds = split /\+/, $kind; return [ map { any_of(@{ $PARTS{$_} }) } @kinds ] }
sub text_of { my ($target) = @_; return @$target == 1 ? $target->[0] : join '+', map { escaped($_) } @$target }

# ($kind, [[parts], ..], user, token groups)
sub is_for
{
    my ($kind, $targets, $user, $groups) = @_;
    my @kinds = split /\+/, $kind;
    for my $target (@$targets)
    {
        my @lacking = grep {
            my ($word, $part) = ($kinds[$_], $target->[$_]);
            !$rows{$word}{$part}{$user} && !grep { $_ eq $part } @{ $groups->{$word} // [] }
        } 0 .. $#kinds;
        return 1 unless @lacking;
    }
    return 0;
}

# Recipients are the members at the time of sending, so all earlier notifications must be sent before.
sub change_member
{
    all_read(@live) if @live;
    my $word = any_of(sort keys %PARTS);
    my ($part, $user) = (any_of(@{ $PARTS{$word} }), any_of(@USERS));
    if (delete $rows{$word}{$part}{$user})
    {
        sql("DELETE FROM clairon.member WHERE audience = '$word' AND target = " . quoted($part) . " AND user_id = '$user'");
    }
    else
    {
        $rows{$word}{$part}{$user} = 1;
        sql("INSERT INTO clairon.member VALUES ('$word', " . quoted($part) . ", '$user')");
    }
    return;
}

sub send_one
{
    my $kind    = any_of(@KINDS);
    my @targets = map { random_target($kind) } 0 .. int rand 3;
    my $mark    = 'm' . @sent;
    my $how     = rand();
    my $needs   = rand() < 0.4 ? 'true' : 'false';
    my $id;
    if ($how < 0.3 && $kind eq 'STRUCTURE+ROLE')    # array columns produce all combinations
    {
        my ($structure, @roles) = ($targets[0][0], map { $_->[1] } @targets);
        @targets = map { [ $structure, $_ ] } @roles;
        my $roles = join ', ', map { quoted($_) } @roles;
        sql("INSERT INTO task VALUES ('$mark', " . quoted($structure) . ", ARRAY[$roles])");
        $needs = 'false';
    }
    elsif ($how < 0.5)
    {
        all_read(@live) if @live;    # the relay evaluates later requests by the memberships it has read
        publish($kind, [ map { text_of($_) } @targets ], $mark);
        $needs = 'false';
    }
    else
    {
        my $list = join ', ', map { quoted(text_of($_)) } @targets;
        $id = sql("SELECT clairon.notify('$kind', ARRAY[$list], '{\"mark\": \"$mark\"}', ack_required => $needs, ack_timeout => '1 hour')");
    }
    my $notification = { mark => $mark, kind => $kind, targets => \@targets };
    $notification->{ack_pending} = join ' ', grep { is_for($kind, \@targets, $_, {}) } @USERS if $needs eq 'true';
    $notification->{id} = $id;
    push @sent, $notification;
    $_->{wanted}{$mark} = 1 for grep { is_for($kind, \@targets, $_->{user}, $_->{groups}) } @live;
    # A pending notification is delivered once the user belongs to its audience again.
    return;
}

sub deliver_pending
{
    my $user = any_of(@USERS);
    my %groups = map { $_ => [ any_of(@{ $PARTS{$_} }) ] } grep { rand() < 0.3 } sort keys %PARTS;
    all_read(@live) if @live;
    my $of = connect_user($user, groups => \%groups);
    $of->{groups} = \%groups;
    push @live, $of;
    return;
}

sub compare
{
    my ($round) = @_;
    all_read(@live);
    my (@lacks, @beyond);
    for my $of (@live)
    {
        my %got = map { ($_->{payload}{mark} // $_->{payload}{after}{mark}) => 1 } grep { ($_->{metadata}{operation} // '') ne 'delete' } $of->{client}->notifications;
        for my $notification (@sent)
        {
            push @lacks, "$of->{user} $notification->{mark}" if $of->{wanted}{ $notification->{mark} } && !$got{ $notification->{mark} };
            # A notification with ack_required may be delivered later, to users who are then members.
            push @beyond, "$of->{user} $notification->{mark}"
              if $got{ $notification->{mark} } && !$of->{wanted}{ $notification->{mark} } && !(defined $notification->{ack_pending} && $of->{ever}{ $notification->{mark} });
        }
    }
    is_deeply([ \@lacks, \@beyond ], [ [], [] ],
        "round $round: each session receives exactly the expected notifications");
    my @wrong = grep { defined $_->{ack_pending} && $_->{ack_pending} ne '' && acks_of($_->{id}) ne $_->{ack_pending} } @sent;
    is_deeply([ map { "$_->{mark}: " . acks_of($_->{id}) . " not $_->{ack_pending}" } @wrong ], [],
        "round $round: notifications are pending for the members at the commit");
    return;
}

# Users who have belonged to the audience of a notification with ack_required at any time since it was sent.
sub record_members
{
    for my $of (@live)
    {
        $of->{ever}{ $_->{mark} } = 1 for grep { defined $_->{ack_pending} && is_for($_->{kind}, $_->{targets}, $of->{user}, $of->{groups}) } @sent;
    }
    return;
}

sub seeded_run
{
    my ($rounds) = @_;
    sql('DELETE FROM clairon.member; DELETE FROM task');
    (%rows, @sent, @live) = ();
    sql('DELETE FROM clairon.member');
    change_member() for 1 .. 25;
    deliver_pending() for 1 .. 5;
    for my $round (1 .. $rounds)
    {
        for (1 .. 12)
        {
            rand() < 0.4 ? change_member() : send_one();
            record_members();
        }
        deliver_pending();
        record_members();
        compare($round);
        (shift @live)->{client}->close if @live > 8;
    }
    return;
}

# Each number of shards has its own database, because one store serves one database.
for my $shards (1, 4)
{
    local $ENV{CLAIRON_TEST_SHARDS} = $shards;
    note "$shards shards";
    $pg = Clairon::Test::postgresql("main$shards");
    sql(q{CREATE TABLE task (mark text PRIMARY KEY, structure text, role text[]);
        ALTER TABLE task REPLICA IDENTITY FULL;
        SELECT clairon.watch('task', 'STRUCTURE+ROLE', 'structure+role', operations => '{create}')});
    begin();
    subtest "$shards shards" => sub {
        check_one_part();
        check_deferred();
        away();
        without_rows();
        check_rejected();
        seeded_run($ROUNDS);
    };
    $relay->stop;
    $pg->stop;
}

done_testing();

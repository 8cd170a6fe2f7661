# Does what is for a composite audience reach exactly those who belong to all of its parts, and wait for the acks of those?
#
# First each way in which somebody might see what is not theirs; then a seeded run of rows, notify and API requests over
# changing memberships, on one shard and on four, against a naive model. To repeat a run: CLAIRON_COMPOSITE_SEED=n.
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
    my $answer = $agent->post($relay->url('/v1/notifications'), { Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true) }, json => $body)->result;
    is($answer->code, $status, "the API answers $status for $audience @$targets") if $status;
    return $answer->json;
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
sub connects { my ($user, %options) = @_; return { user => $user, client => $relay->client($user, %options) } }
sub member { my ($audience, $target, @users) = @_;
    sql('INSERT INTO clairon.member VALUES ' . join ', ', map { "('$audience', E'$target', '$_')" } @users); return }
sub leaves { my ($audience, $user) = @_; sql("DELETE FROM clairon.member WHERE audience = '$audience' AND user_id = '$user'"); return }
sub stored { my ($audience, $target, $users) = @_;
    wait_until("$users in $audience", sub { join(' ', sort @{ $store->execute('SMEMBERS', $store->shared("members:$audience:$target")) }) eq $users });
    return }

sub begin
{
    $store = Clairon::Test::store();
    $relay = Clairon::Test::relay($pg, $store,
        conf => { 'feed.slot' => 'shards' . $store->shards, 'delivery.ack_timeout' => '200ms', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '1s' });
    return;
}

sub one_part_is_not_enough
{
    sql('DELETE FROM clairon.member');
    member('STRUCTURE', 's1', qw(both half_s stays));
    member('ROLE', 'admin', qw(both half_r stays));
    member('STRUCTURE', 's2', 'half_r');
    my ($both, $half_s, $half_r) = map { connects($_) } qw(both half_s half_r);
    my $mixed = connects('half_s', groups => { ROLE => ['admin'] });
    my $named = connects('named', groups => { 'STRUCTURE+ROLE' => ['s1+admin'], TEAM => ['x'] });
    my @all   = ($both, $half_s, $half_r, $mixed, $named);
    my $id    = notify('STRUCTURE+ROLE', 's1+admin', 'secret', 'ack_required => true');
    publish('STRUCTURE+ROLE', ['s1+admin'], 'from the API', 201);
    all_read(@all);
    is_deeply([ map { has($_, 'secret') ? 1 : 0 } @all ], [ 1, 0, 0, 1, 0 ], 'those of both parts, by rows and token, and nobody else');
    is_deeply([ map { has($_, 'from the API') ? 1 : 0 } @all ], [ 1, 0, 0, 1, 0 ], 'from the API too');
    my ($note) = of_mark($both->{client}, 'secret');
    is_deeply($note->{routing}{audience}, { type => 'STRUCTURE+ROLE', targets => ['s1+admin'] }, 'the notification names the parts');
    is(acks_of($id), 'both stays', 'those of both parts by rows have to acknowledge it');
    my $poll = ($relay->get('/v1/poll?wait=0', Authorization => 'Bearer ' . token(sub => 'half_r')))[1];
    unlike($poll, qr/secret/, 'a poll is no way in');

    # Retries go to those who still belong to both.
    leaves('ROLE', 'both');
    stored('ROLE', 'admin', 'half_r stays');
    my $shown = has($both, 'secret');
    my $stays = connects('stays');
    $stays->{client}->run_until('a retry', sub { has($stays, 'secret') > 1 });
    all_read($both, $stays);
    cmp_ok(has($both, 'secret'), '<=', $shown + 1, 'who left one part is shown no retry');
    $both->{client}->close;
    my $again = connects('both');
    all_read($again);
    is(has($again, 'secret'), 0, 'nor at the next connect');
    $again = connects('both', pos => '');
    member('ROLE', 'admin', 'both');
    $again->{client}->run_until('it, once back', sub { has($again, 'secret') });
    pass('who comes back to the part is shown it');
    $_->{client}->ack($id) for $stays, $again;
    wait_until('it is acknowledged', sub { $store->pending == 0 });
    return;
}

sub held_back
{
    sql(q{DELETE FROM clairon.member});
    member('STRUCTURE', 's1', 'waits');
    member('ROLE',      'admin', 'waits');
    my $waits = connects('waits', win => 1);
    my $first = notify('USER', 'waits', 'first', q{ack_required => true, ack_timeout => '1 hour'});
    $waits->{client}->run_until('the first', sub { has($waits, 'first') });
    my $held = notify('STRUCTURE+ROLE', 's1+admin', 'held', q{ack_required => true, ack_timeout => '1 hour'});
    all_read($waits);
    leaves('STRUCTURE', 'waits');
    stored('STRUCTURE', 's1', '');
    $waits->{client}->ack($first);
    wait_until('the first is acknowledged', sub { $store->pending == 1 });
    my $own = notify('USER', 'waits', 'own', q{ack_required => true, ack_timeout => '1 hour'});
    $waits->{client}->run_until('what is their own', sub { has($waits, 'own') });
    is(has($waits, 'held'), 0, 'what a full window held back is not shown after one part was left');
    $waits->{client}->ack($own);
    wait_until('it is acknowledged', sub { $store->pending == 1 });
    all_read($waits);
    is(has($waits, 'held'), 0, 'nor when there is room');
    member('STRUCTURE', 's1', 'waits');
    $waits->{client}->run_until('it, once back', sub { has($waits, 'held') });
    $waits->{client}->ack($held);
    wait_until('all is acknowledged', sub { $store->pending == 0 });
    return;
}

sub away
{
    sql(q{DELETE FROM clairon.member});
    member('STRUCTURE', 's1', 'goes');
    member('ROLE',      'admin', 'goes');
    my $goes = connects('goes');
    all_read($goes);
    my $pos = $goes->{client}->pos;
    $goes->{client}->close;
    notify('STRUCTURE+ROLE', 's1+admin', 'while away');
    leaves('ROLE', 'goes');
    stored('ROLE', 'admin', '');
    my $back = connects('goes', pos => $pos);
    all_read($back);
    is(has($back, 'while away'), 0, 'who left one part while away resumes without it');
    return;
}

# Nobody is of one part by rows: whoever is sent it owes the ack.
sub without_rows
{
    sql(q{DELETE FROM clairon.member});
    member('STRUCTURE', 's1', qw(open1 open2));
    my ($one, $two) = (connects('open1', groups => { ROLE => ['guest'] }), connects('open2'));
    my $id = notify('STRUCTURE+ROLE', 's1+guest', 'open', 'ack_required => true');
    $one->{client}->run_until('it', sub { has($one, 'open') });
    all_read($one, $two);
    wait_until('its delivery is reported', sub { acks_of($id) eq 'open1' });
    is(has($two, 'open'), 0, 'where a part is known by tokens alone, those of both are sent it');
    is(acks_of($id), 'open1', 'and owe the acknowledgement');
    $one->{client}->ack($id);
    wait_until('it is acknowledged', sub { ($store->execute('HGET', $store->of($id, "ack:$id"), 'open1') // 0) > 0 });
    return;
}

sub refusals
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

sub change_member
{
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
    if ($how < 0.3 && $kind eq 'STRUCTURE+ROLE')    # by columns: arrays give all combinations
    {
        my ($structure, @roles) = ($targets[0][0], map { $_->[1] } @targets);
        @targets = map { [ $structure, $_ ] } @roles;
        my $roles = join ', ', map { quoted($_) } @roles;
        sql("INSERT INTO task VALUES ('$mark', " . quoted($structure) . ", ARRAY[$roles])");
        $needs = 'false';
    }
    elsif ($how < 0.5)
    {
        all_read(@live) if @live;    # what a relay is asked is judged by what it has read
        publish($kind, [ map { text_of($_) } @targets ], $mark);
        $needs = 'false';
    }
    else
    {
        my $list = join ', ', map { quoted(text_of($_)) } @targets;
        $id = sql("SELECT clairon.notify('$kind', ARRAY[$list], '{\"mark\": \"$mark\"}', ack_required => $needs, ack_timeout => '1 hour')");
    }
    my $note = { mark => $mark, kind => $kind, targets => \@targets };
    $note->{owe} = join ' ', grep { is_for($kind, \@targets, $_, {}) } @USERS if $needs eq 'true';
    $note->{id} = $id;
    push @sent, $note;
    $_->{wanted}{$mark} = 1 for grep { is_for($kind, \@targets, $_->{user}, $_->{groups}) } @live;
    # What waits for a user's ack comes once they belong to it again.
    return;
}

sub come
{
    my $user = any_of(@USERS);
    my %groups = map { $_ => [ any_of(@{ $PARTS{$_} }) ] } grep { rand() < 0.3 } sort keys %PARTS;
    all_read(@live) if @live;
    my $of = connects($user, groups => \%groups);
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
        for my $note (@sent)
        {
            push @lacks, "$of->{user} $note->{mark}" if $of->{wanted}{ $note->{mark} } && !$got{ $note->{mark} };
            # What needs an ack may come later, to whoever belongs to it by then.
            push @beyond, "$of->{user} $note->{mark}"
              if $got{ $note->{mark} } && !$of->{wanted}{ $note->{mark} } && !(defined $note->{owe} && $of->{ever}{ $note->{mark} });
        }
    }
    is_deeply([ \@lacks, \@beyond ], [ [], [] ], "round $round: each has what is theirs, and nothing else");
    my @wrong = grep { defined $_->{owe} && $_->{owe} ne '' && acks_of($_->{id}) ne $_->{owe} } @sent;
    is_deeply([ map { "$_->{mark}: " . acks_of($_->{id}) . " not $_->{owe}" } @wrong ], [], "round $round: as of the commit these owe the acks");
    return;
}

# Who belongs to what needs an ack, at any time since it was sent.
sub remember
{
    for my $of (@live)
    {
        $of->{ever}{ $_->{mark} } = 1 for grep { defined $_->{owe} && is_for($_->{kind}, $_->{targets}, $of->{user}, $of->{groups}) } @sent;
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
    come() for 1 .. 5;
    for my $round (1 .. $rounds)
    {
        for (1 .. 12)
        {
            rand() < 0.4 ? change_member() : send_one();
            remember();
        }
        come();
        remember();
        compare($round);
        (shift @live)->{client}->close if @live > 8;
    }
    return;
}

# Each number of shards has a database of its own history: one store serves one.
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
        one_part_is_not_enough();
        held_back();
        away();
        without_rows();
        refusals();
        seeded_run($ROUNDS);
    };
    $relay->stop;
    $pg->stop;
}

done_testing();

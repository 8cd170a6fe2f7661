# Tests that live lists of the client show only states of the table between transactions, never move backwards, and equal the table after the
# last change, with random transactions and faults.
#
# Writers commit random transactions on a primary. Two relays share a store; each reads rows from the primary or from a
# standby whose replay is paused and resumed. Clients use both relays, over WebSocket, SSE and polling; one client loads
# its rows from the primary, the standby and the relay in turn. Relays, the store and both servers are paused and
# killed, and connections are cut or slow. With PostgreSQL 16 and later, the relays may also read their notifications from the
# standby. Every second round has synchronous replication. Commits then become visible on the primary long after relays
# have read them, perhaps in another order.
#
# One list has conditions, an order and a limit, one grows by pages, and one is a count.
#
# The long form has a random seed. CLAIRON_LIVE_SEED=n repeats a run; CLAIRON_LIVE_ROUNDS=n and CLAIRON_LIVE_FAULTS=n
# per round make it longer.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch top amount pg_major);
use Clairon::Test::Live::History;
use Clairon::Test::Live::Writer;
use Digest::MD5 qw(md5_hex);
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $SEED    = $ENV{CLAIRON_LIVE_SEED}   // amount(64, int(rand(1_000_000)));
my $ROUNDS  = $ENV{CLAIRON_LIVE_ROUNDS} // amount(2, 12);
my $FAULTS  = $ENV{CLAIRON_LIVE_FAULTS} // amount(4, 10);
my $WRITERS = 3;
my @USERS   = qw(u1 u2 u3);
my %TOKEN_GROUPS = (u1 => { TEAM => ['t9'] });
# The seed is hashed, because similar seeds produce similar first random numbers.
sub start_random { srand hex substr md5_hex("$SEED @_"), 0, 8; return }
start_random('settings');

my $feed_on_standby = pg_major() >= 16 && rand() < 0.8;
my $is_synchronous = rand() < 0.5;    # in the current round
my $shards = $ENV{CLAIRON_LIVE_SHARDS} // one_of(1, 4);
note sprintf 'seed %d, %d rounds of %d faults, feed on the %s, %d shards', $SEED, $ROUNDS, $FAULTS, $feed_on_standby ? 'standby' : 'primary', $shards;

my $primary = Clairon::Test::postgresql('primary', conf => "max_prepared_transactions = 10\nsynchronous_commit = remote_apply\n");
my $history_lists = {
    open => sub { text_of([qw(id n)], grep { $_->{is_open} eq 'true' } values %{ $_[0]{tasks} }) },
    docs => sub { join ' ', sort map { join '|', @{$_}{qw(part id n)}, length $_->{body}, substr $_->{body}, 0, 12 } values %{ $_[0]{docs} } },
};
for my $user (@USERS)
{
    $history_lists->{"own $user"}  = sub { task_text(grep { ($_->{owner} // '') eq $user } values %{ $_[0]{tasks} }) };
    $history_lists->{"first $user"} = sub {
        my @open = grep { ($_->{owner} // '') eq $user && $_->{is_open} eq 'true' } values %{ $_[0]{tasks} };
        my @first = grep { $_ } (sort { $b->{n} <=> $a->{n} || $a->{id} <=> $b->{id} } @open)[ 0 .. 2 ];
        return join ' ', map { "$_->{id}|$_->{n}" } @first;
    };
    for my $size (2, 4, 6, 8)
    {
        $history_lists->{"page$size $user"} = sub {
            my @first = grep { $_ } (sort { $b->{n} <=> $a->{n} || $a->{id} <=> $b->{id} } team_tasks($user, $_[0]))[ 0 .. $size - 1 ];
            return join ' ', map { "$_->{id}|$_->{n}" } @first;
        };
    }
    $history_lists->{"bare $user"} = sub { return scalar grep { !defined $_->{owner} } team_tasks($user, $_[0]) };
    $history_lists->{"team $user"} = sub { return task_text(team_tasks($user, $_[0])) };
}

# Returns the tasks of the user's teams.
sub team_tasks
{
    my ($user, $tables) = @_;
    my %teams = map { $_ => 1 } @{ $TOKEN_GROUPS{$user}{TEAM} // [] },
      map { $_->{target} } grep { $_->{user_id} eq $user } values %{ $tables->{member} };
    return grep { grep { $teams{$_} } teams($_) } values %{ $tables->{tasks} };
}
sub text_of { my ($columns, @rows) = @_; return join ' ', sort map { join '|', map { $_ // '' } @{$_}{@$columns} } @rows }
sub teams { my ($task) = @_; return split /,/, ($task->{teams} // '') =~ tr/{}//dr }
sub task_text { return text_of([qw(id owner teams is_open n)], map { { %$_, teams => join '+', teams($_) } } @_) }

$primary->safe_psql('postgres', q{
    CREATE TABLE tasks (id int PRIMARY KEY, owner text, teams text[], is_open boolean NOT NULL, n int NOT NULL);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    CREATE TABLE docs (part int, id int, n int NOT NULL, body text NOT NULL, PRIMARY KEY (part, id));
    ALTER TABLE docs ALTER COLUMN body SET STORAGE EXTERNAL;
    SELECT clairon.watch('tasks', 'USER', 'owner', live => true, filter_columns => '{is_open,n}');
    SELECT clairon.watch('tasks', 'TEAM', 'teams', name => 'team', live => true, filter_columns => '{owner,n}');
    SELECT clairon.watch('tasks', 'ALL', name => 'open', only_when => 'is_open', columns => '{id,n}', live => true);
    SELECT clairon.watch('docs', 'ALL', live => true)});
my $history = Clairon::Test::Live::History->new($primary, lists => $history_lists,
    keys => { tasks => ['id'], docs => [qw(part id)], member => [qw(audience target user_id)] });
my $standby = Clairon::Test::standby($primary);

sub set_synchronous
{
    my ($is_on) = @_;
    my $standbys = $is_on ? 'standby' : '';
    $primary->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = '$standbys'");
    $primary->reload;
    return;
}

my $store = Clairon::Test::store();
my $to_store = Clairon::Test::proxy($store->{socket});
my ($feed, $other) = $feed_on_standby ? ($standby, $primary) : ($primary, $standby);
sub conninfo { my ($node) = @_; return $node->connstr('postgres') . ' user=relay' }
my @relays = map { Clairon::Test::relay($feed, $store, %$_) }
  { conf => { 'store.shards' => $shards, ($feed_on_standby ? ('feed.primary_conninfo' => conninfo($primary)) : ()) } },
  { roles => 'gate', conf => { 'store.shards' => $shards, 'store.url' => $to_store->url('redis'), 'rows.conninfo' => conninfo($other) } };
my @to_relays = map { Clairon::Test::proxy("127.0.0.1:$_->{port}") } @relays;

my @clients = map {
    my ($user, $relay, $transport) = @$_;
    { name => "$user $relay $transport", user => $user, transport => $transport, url => $to_relays[$relay]->url('http') . '/v1/ws',
        token => token(sub => $user, $TOKEN_GROUPS{$user} ? (groups => $TOKEN_GROUPS{$user}) : ()) } }
  [ 'u1', 0, 'ws' ], [ 'u1', 1, 'poll' ], [ 'u2', 0, 'ws' ], [ 'u2', 1, 'sse' ], [ 'u3', 1, 'ws' ];
push @clients, { %{ $clients[-1] }, name => 'u3 1 ws load', queries => { map { $_ => load_query('u3', $_) } qw(own team open docs) } };
my %user_of = map { $_->{name} => $_->{user} } @clients;
my $page = Clairon::Test::page(name => 'lists', websocket => 1, url => $relays[0]->url . '/v1/ws', token => token(sub => 'none'),
    script => 'const CLIENTS = ' . JSON->new->canonical->encode(\@clients) . ";\nconst DATABASES = "
      . JSON::encode_json([ map { $_->connstr('postgres') } $primary, $standby ]) . ";\n" . slurp_file(top() . '/tests/perl/Clairon/Test/Live/lists.js'));

# ---- states that the clients display

my ($log_read, %published, %progress, @unchecked, %counts) = (0);

my %page_of;    # client => the number of rows of its list that grows
sub list_of_user { my ($user, $list) = @_; return $list =~ /^(own|team|first|bare|page\d)$/ ? "$list $user" : $list }
sub history_list { my ($client, $list, $size) = @_; return list_of_user($user_of{$client}, $list eq 'paged' ? 'page' . ($size // $page_of{$client} // 2) : $list) }

sub read_events
{
    my $text = $page->log_text($log_read);
    my $end = rindex($text, "\n") + 1;
    $log_read += length substr $text, 0, $end;
    for my $line (split /\n/, substr $text, 0, $end)
    {
        next if $line =~ /^clairon: /;    # a hint from the client
        my $event = eval { JSON::decode_json($line) };
        if (!$event) { diag("unexpected output of the page: $line"); $counts{unexpected}++; next }
        $history->add_snapshot($event->{snapshot}) if $event->{snapshot};
        $counts{gap}++ if $event->{gap};
        if ($event->{error}) { $counts{error}++; note("$event->{client}: $event->{error}") }
        next unless $event->{list};
        $page_of{ $event->{client} } = $event->{wanted} if $event->{wanted};
        $counts{pages}++ if ($event->{wanted} // 0) > 2;
        push @unchecked, $event if $event->{isNew};
        next if exists $event->{wanted};
        $published{ $event->{client} }{ $event->{list} } = $event->{text};
        push @unchecked, $event if defined $event->{text};
    }
    return;
}

# Returns the errors in the states that were displayed since the last call.
sub check_published
{
    my @errors;
    for my $event (splice @unchecked)
    {
        if ($event->{isNew}) { delete $progress{ $event->{client} }{ $event->{list} }; next }
        my $progress = $progress{ $event->{client} }{ $event->{list} } //= {};
        my $error = $history->follow($progress, history_list($event->{client}, $event->{list}, $event->{size}), $event->{text});
        $counts{states}++;
        if ($error) { push @errors, "$event->{client}: $error"; next }
        push @errors, "$event->{client}, $event->{list}: a part of a transaction is shown" if $history->is_within_transaction($progress);
        $counts{reordered}++ if $history->is_of_snapshot($progress);
    }
    return @errors;
}

my @series = map { my $client = $_; map { [ $client->{name}, $_ ] } qw(own team open docs), $client->{queries} ? () : qw(first bare paged) } @clients;
sub lagging { return grep { ($published{ $_->[0] }{ $_->[1] } // 'nothing') ne $history->newest(history_list(@$_)) } @series }

# ---- the database

# Returns the table and the condition of a list.
sub selection
{
    my ($user, $list) = @_;
    my $groups = join ',', map { "'$_'" } @{ $TOKEN_GROUPS{$user}{TEAM} // [] };
    my %selection = (
        own  => "tasks WHERE owner = '$user'",
        team => "tasks WHERE teams && (ARRAY(SELECT target FROM clairon.member WHERE audience = 'TEAM' AND user_id = '$user') || ARRAY[$groups]::text[])",
        open => 'tasks WHERE is_open',
        docs => 'docs');
    return $selection{$list};
}

sub load_query
{
    my ($user, $list) = @_;
    return "SELECT json_build_object('snapshot', clairon.snapshot(), 'rows', (SELECT coalesce(json_agg(t), '[]') FROM (SELECT * FROM "
      . selection($user, $list) . ') t))';
}

sub rows_by_sql
{
    my ($user, $list) = @_;
    my $task = q{concat_ws('|', id, coalesce(owner, ''), coalesce(array_to_string(teams, '+'), ''), is_open::text, n)};
    my %columns = (own => $task, team => $task, open => q{id || '|' || n}, docs => q{concat_ws('|', part, id, n, length(body), left(body, 12))});
    return join ' ', sort split /\n/, $primary->safe_psql('postgres', "SELECT $columns{$list} FROM " . selection($user, $list));
}

sub rows_by_rule
{
    my ($user, $list) = @_;
    my ($table, $rule) = $list eq 'docs' ? ('docs', 'default') : ('tasks', $list eq 'own' ? 'default' : $list);
    my $groups = JSON::encode_json($TOKEN_GROUPS{$user} // {});
    my @rows = map { JSON::decode_json($_) } split /\n/, $primary->safe_psql('postgres', "SELECT clairon.rows('$table', '$user', '$rule', '$groups')");
    for my $row (@rows)
    {
        $row->{is_open} = $row->{is_open} ? 'true' : 'false' if exists $row->{is_open};
        $row->{teams} = '{' . join(',', @{ $row->{teams} }) . '}' if ref $row->{teams};
    }
    return $history_lists->{docs}->({ docs => { map { $_ => $rows[$_] } 0 .. $#rows } }) if $list eq 'docs';
    return $list eq 'open' ? text_of([qw(id n)], @rows) : task_text(@rows);
}

# ---- faults

sub wait_random
{
    my $until = time + 0.2 + rand 1.3;
    wait_until('the pause has ended', sub { time > $until });
    return;
}

sub pause_process { my ($pid) = @_; kill STOP => $pid; wait_random(); kill CONT => $pid; return }
sub restart_relays { $_->is_alive or $_->start for @relays; return }
sub one_of { return $_[ rand @_ ] }

sub replay
{
    my ($verb) = @_;
    wait_until("replay: $verb", sub { eval { $standby->safe_psql('postgres', "SELECT pg_wal_replay_$verb()"); 1 } });
    return;
}

sub cancel_wait
{
    $primary->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM (
        SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' ORDER BY random() LIMIT 1) AS waiting});
    return;
}

# The clients of one relay reconnect to the other relay.
my $is_swapped = 0;
sub swap_relays
{
    $is_swapped = !$is_swapped;
    for my $i (0, 1)
    {
        $to_relays[$i]->target("127.0.0.1:$relays[ $is_swapped ? 1 - $i : $i ]{port}");
        $to_relays[$i]->cut;
    }
    return;
}

my %faults = (
    'replay is paused' => sub { replay('pause'); wait_random(); replay('resume') },
    'replay is paused, and clients reconnect' => sub { replay('pause'); wait_random(); $_->cut for @to_relays; wait_random(); replay('resume') },
    # With synchronous replication, the writers wait. One of their commits becomes visible, perhaps before an earlier
    # commit.
    'replay is paused, and a commit stops waiting' => sub {
        replay('pause'); wait_random(); cancel_wait(); $_->cut for @to_relays; wait_random(); replay('resume') },
    'replay is paused, and a relay is killed' => sub {
        replay('pause'); wait_random(); one_of(@relays)->kill9; restart_relays(); wait_random(); replay('resume') },
    'a relay is killed' => sub { one_of(@relays)->kill9; wait_random(); restart_relays() },
    'both relays are killed' => sub { $_->kill9 for @relays; wait_random(); restart_relays() },
    'a relay is paused' => sub { pause_process(one_of(@relays)->pid) },
    'the store is killed' => sub { $store->kill9; wait_random(); $store->start },
    'the store is paused' => sub { pause_process($store->pid) },
    'connections of clients are cut' => sub { one_of(@to_relays)->cut },
    'the network of clients hangs and is then cut' => sub { my $network = one_of(@to_relays); $network->freeze; wait_random(); $network->cut; $network->thaw },
    'clients switch to the other relay' => \&swap_relays,
    'replay is paused, and clients switch to the other relay' => sub { replay('pause'); wait_random(); swap_relays(); wait_random(); replay('resume') },
    'clients return after the stream was trimmed' => sub {
        $_->freeze for @to_relays; wait_random(); $store->execute('XTRIM', $_, 'MAXLEN', 0) for $store->keys('stream'); $_->cut, $_->thaw for @to_relays },
    'connections to the store are cut' => sub { $to_store->cut },
    'the primary restarts' => sub { $primary->restart },
    'the primary crashes' => sub { $primary->stop('immediate'); $primary->start },
    'the standby restarts' => sub { $standby->restart },
    'queries for rows are terminated' => sub { eval { one_of($primary, $standby)->safe_psql('postgres',
        q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%live_rows%' AND pid <> pg_backend_pid()}) } },
    'nothing' => \&wait_random,
);
my @names = sort keys %faults;

# ---- rounds

my $begin = time;
my $writers = Clairon::Test::Live::Writer->new($primary, users => \@USERS, seed => $SEED);
$writers->fill;
wait_until('the relays are ready', sub { !grep { ($_->get('/readyz'))[0] != 200 } @relays });
for my $round (1 .. $ROUNDS)
{
    $is_synchronous = !$is_synchronous;
    set_synchronous($is_synchronous);
    note sprintf 'round %d: %s replication', $round, $is_synchronous ? 'synchronous' : 'asynchronous';
    $_->rate(one_of(0, 200_000, 800_000)) for @to_relays;
    $writers->start($WRITERS);
    for my $fault (1 .. $FAULTS)
    {
        # Seeds the generator again, because other modules also use random numbers.
        start_random($round, $fault);
        my $name = one_of(@names);
        note sprintf '%5.1f s  round %d, fault %d: %s', time - $begin, $round, $fault, $name;
        $faults{$name}->();
        read_events();
        wait_random() if rand() < 0.7;
    }
    $writers->finish;
    $history->extend;
    my $is_at_rest = eval { wait_until('all lists show the last state', sub { read_events(); !lagging() }); 1 };
    ok($is_at_rest, "round $round: each list shows the last state") or diag(map {
        sprintf "%s %s: \"%s\", expected \"%s\"\n", @$_, $published{ $_->[0] }{ $_->[1] } // 'nothing', $history->newest(history_list(@$_)) } lagging());
    is_deeply([ check_published() ], [], "round $round: the states of a list are states of the table, in commit order");
    for my $list (qw(own team open docs))
    {
        is_deeply([ map { rows_by_sql($_, $list) } @USERS ], [ map { $history->newest(list_of_user($_, $list)) } @USERS ], "round $round: the model of \"$list\" equals the table");
        is_deeply([ map { rows_by_rule($_, $list) } @USERS ], [ map { rows_by_sql($_, $list) } @USERS ], "round $round: clairon.rows() of \"$list\" equals the table");
    }
    note sprintf '%5.1f s  %d transactions, %d states shown, %d only of a snapshot, %d gaps, %d errors, %d pages',
      time - $begin, $history->transaction_count, map { $_ // 0 } @counts{qw(states reordered gap error pages)};
}
cmp_ok($history->transaction_count, '>', 20 * $ROUNDS, 'the writers commit transactions');
cmp_ok($counts{states}, '>', 20 * $ROUNDS, 'the lists change');
cmp_ok($counts{pages} // 0, '>', 0, 'a list grows');
is($counts{unexpected}, undef, 'the page prints only events');
kill TERM => $page->pid;
$page->wait_end;

done_testing();
